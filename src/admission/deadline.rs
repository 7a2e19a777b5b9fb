//! How long a review may take: the API server says so in the query, `?timeout=5s`.

use std::time::Duration;

/// What a webhook gets that says nothing of it (a Kubernetes default).
const DEFAULT: Duration = Duration::from_secs(10);

/// Kept back for the way of the answer, and for a machine that is busy.
const MARGIN: Duration = Duration::from_millis(400);

/// Time for all work on a review, from its query.
pub(super) fn of_review(query: Option<&str>) -> Duration {
    let given = query.and_then(|query| {
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, _)| key == "timeout").and_then(|(_, value)| go_duration(&value))
    });
    let timeout = given.unwrap_or(DEFAULT);
    // A very short one is halved, so that something is left to work with.
    timeout.saturating_sub(MARGIN.min(timeout / 2))
}

/// Reads a duration as Go writes it: `5s`, `1m30s`, `1.5s`, `500ms`.
fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(number_end);
        let unit_end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = behind;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_review_is_what_the_api_server_gives_less_a_margin() {
        assert_eq!(of_review(Some("timeout=5s")), Duration::from_millis(4600));
        assert_eq!(of_review(Some("a=b&timeout=1m30s")), Duration::from_millis(89_600));
        assert_eq!(of_review(Some("timeout=500ms")), Duration::from_millis(250));
        for nothing in
            [None, Some(""), Some("timeout="), Some("timeout=soon"), Some("timeout=-5s"), Some("timeout=5")]
        {
            assert_eq!(of_review(nothing), DEFAULT.saturating_sub(MARGIN), "{nothing:?}");
        }
        assert_eq!(of_review(Some("timeout=0s")), Duration::ZERO);
    }
}

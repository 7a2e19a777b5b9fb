//! Durations as Kubernetes users write them: `300ms`, `5s`, `10m`, `1h`, `0s`.

use std::time::Duration;

/// Reads a duration.
pub(super) fn any(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        _ => return Err("write a whole number with ms, s, m or h behind it, such as 5s".into()),
    };
    let number: u64 =
        number.parse().map_err(|_| "write a whole number in front of the unit, such as 5s".to_owned())?;
    number
        .checked_mul(milliseconds)
        .map(Duration::from_millis)
        .ok_or_else(|| "that is longer than can be counted".into())
}

/// Reads a duration that must not be zero.
pub(super) fn positive(text: &str) -> Result<Duration, String> {
    any(text).and_then(
        |duration| {
            if duration.is_zero() { Err("must be longer than zero".into()) } else { Ok(duration) }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(any("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(any("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(any("10m"), Ok(Duration::from_mins(10)));
        assert_eq!(any("1h"), Ok(Duration::from_hours(1)));
        assert_eq!(any("0s"), Ok(Duration::ZERO));
        for bad in ["", "5", "s", "-5s", "1.5s", "5 s", "99999999999999999999s", "18446744073709551615h"] {
            assert!(any(bad).is_err(), "{bad:?}");
        }
        assert!(positive("0s").is_err());
    }
}

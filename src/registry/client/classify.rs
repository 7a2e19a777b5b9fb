//! What an answer says: status and body in, an entity or one of the four errors out. Pure.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::registry::{RegistryError, Unavailability};

/// How much of a body an error message quotes, in characters.
const EXCERPT_CHARACTERS: usize = 60;

/// Why an answer is not the entity that was asked for.
#[derive(Debug, PartialEq)]
pub(super) enum Fault {
    /// This API version is not served here: ask with the other one.
    OtherVersion {
        /// The HTTP status.
        status: u16,
    },
    /// Anything else.
    Error(RegistryError),
}

impl<E: Into<RegistryError>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// The body of every refusal of the registry. Without it a 404 is a statement about a path, not about an entity.
#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "code")]
    _code: String,
    message: String,
}

/// Reads an answer.
pub(super) fn classify<T: DeserializeOwned>(status: u16, body: &[u8]) -> Result<T, Fault> {
    if (200..300).contains(&status) {
        return serde_json::from_slice(body)
            .map_err(|error| Unavailability::NotJson { reason: error.to_string() }.into());
    }
    let refusal = || serde_json::from_slice::<Refusal>(body).ok();
    match status {
        404 => match refusal() {
            Some(Refusal { message, .. }) => Err(RegistryError::Missing { message }.into()),
            None => Err(Fault::OtherVersion { status }),
        },
        // What a version of the API answers after its sunset.
        410 => Err(Fault::OtherVersion { status }),
        400 | 409 | 422 => match refusal() {
            Some(Refusal { message, .. }) if status == 409 => Err(RegistryError::Conflict { message }.into()),
            Some(Refusal { message, .. }) => Err(RegistryError::Refused { status, message }.into()),
            None => Err(Unavailability::Status { status, excerpt: excerpt(body) }.into()),
        },
        _ => Err(Unavailability::Status { status, excerpt: excerpt(body) }.into()),
    }
}

/// The beginning of a body on one line, without control characters.
fn excerpt(body: &[u8]) -> String {
    let beginning = &body[..body.len().min(4 * EXCERPT_CHARACTERS)];
    let text = String::from_utf8_lossy(beginning);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control() || c == '`');
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    line.chars().take(EXCERPT_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    const OWN: &str = r#"{"code": "x", "message": "no"}"#;
    const PAGE: &str = "<html>\n<body>no</body>";

    fn missing() -> Fault {
        RegistryError::Missing { message: "no".into() }.into()
    }

    fn refused(status: u16) -> Fault {
        RegistryError::Refused { status, message: "no".into() }.into()
    }

    fn unavailable(status: u16, excerpt: &str) -> Fault {
        Unavailability::Status { status, excerpt: excerpt.into() }.into()
    }

    #[rstest]
    #[case::the_registry_knows_no_such_entity(404, OWN, missing())]
    #[case::a_wrong_path_is_not_missing(404, PAGE, Fault::OtherVersion { status: 404 })]
    #[case::an_old_release_does_not_know_v1(404, "404 page not found", Fault::OtherVersion { status: 404 })]
    #[case::json_of_another_service_is_not_missing(404, r#"{"error": "no"}"#, Fault::OtherVersion { status: 404 })]
    #[case::sunset(410, OWN, Fault::OtherVersion { status: 410 })]
    #[case::conflict(409, OWN, RegistryError::Conflict { message: "no".into() }.into())]
    #[case::conflict_of_a_proxy(409, PAGE, unavailable(409, "<html> <body>no</body>"))]
    #[case::bad_request(400, OWN, refused(400))]
    #[case::bad_request_of_a_proxy(400, PAGE, unavailable(400, "<html> <body>no</body>"))]
    #[case::unprocessable(422, OWN, refused(422))]
    #[case::token_refused(401, OWN, unavailable(401, r#"{"code": "x", "message": "no"}"#))]
    #[case::mesh_refuses(403, "RBAC: access denied", unavailable(403, "RBAC: access denied"))]
    #[case::too_many(429, "", unavailable(429, ""))]
    #[case::redirect(302, "", unavailable(302, ""))]
    #[case::internal(500, OWN, unavailable(500, r#"{"code": "x", "message": "no"}"#))]
    #[case::booting(503, "not ready", unavailable(503, "not ready"))]
    fn a_refusal_is_told_apart(#[case] status: u16, #[case] body: &str, #[case] want: Fault) {
        assert_eq!(classify::<Value>(status, body.as_bytes()), Err(want));
    }

    #[rstest]
    #[case::a_page(PAGE)]
    #[case::half_an_answer(r#"{"items": ["#)]
    #[case::nothing("")]
    fn success_that_is_no_json_is_unavailable(#[case] body: &str) {
        let fault = classify::<Value>(200, body.as_bytes());
        assert!(
            matches!(fault, Err(Fault::Error(RegistryError::Unavailable(Unavailability::NotJson { .. })))),
            "{body:?} must be unavailable, not an answer: {fault:?}"
        );
    }
}

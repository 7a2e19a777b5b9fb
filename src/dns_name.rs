//! Names as Kubernetes takes them. Text in, yes or no out.

/// Longest label of a DNS name in characters: a Namespace's name is one.
const LONGEST_LABEL: usize = 63;

/// Longest DNS name in characters: what an object may be named, and what may stand before the `/` of a label.
const LONGEST_SUBDOMAIN: usize = 253;

/// Whether a text is a DNS label, as the name of a Namespace is.
#[must_use]
pub(crate) fn is_label(text: &str) -> bool {
    text.len() <= LONGEST_LABEL && is_part(text)
}

/// Whether a text is a DNS subdomain, as the name of an object is. Only the whole is limited in length.
#[must_use]
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_SUBDOMAIN && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(allowed) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_other_texts() {
        for name in ["a", "team-a", "0", &"n".repeat(63)] {
            assert!(is_label(name) && is_subdomain(name), "{name:?}");
        }
        for name in ["a.b", "modelregistry.kubeflow.org", &"n".repeat(253)] {
            assert!(!is_label(name) && is_subdomain(name), "{name:?}");
        }
        for other in ["", "A", "a/b", "-a", "a-", "a..b", ".a", "a_b", "a b", "a\nb", "ä", &"n".repeat(254)]
        {
            assert!(!is_label(other) && !is_subdomain(other), "{other:?}");
        }
    }
}

//! Addresses to listen on, as a Pod writes them: `$(POD_IP):10250`, which for IPv6 has no brackets.

use std::net::{IpAddr, SocketAddr};

/// Reads `ADDRESS:PORT`; an IPv6 address may stand in brackets or not.
pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let split = text.rsplit_once(':').and_then(|(ip, port)| {
        let ip = ip.parse::<IpAddr>().ok()?;
        Some(SocketAddr::new(ip, port.parse().ok()?))
    });
    split.ok_or_else(|| "write it as ADDRESS:PORT, such as 0.0.0.0:8080".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_or_without_brackets() {
        for (text, address) in [
            ("10.0.0.7:10250", "10.0.0.7:10250"),
            ("[fd00::7]:10250", "[fd00::7]:10250"),
            ("fd00::7:10250", "[fd00::7]:10250"),
            ("[::]:80", "[::]:80"),
        ] {
            assert_eq!(listen(text), Ok(address.parse().unwrap()), "{text}");
        }
        for bad in ["10250", ":10250", "10.0.0.7", "localhost:80", "", "10.0.0.7:99999"] {
            assert!(listen(bad).is_err(), "{bad:?}");
        }
    }
}

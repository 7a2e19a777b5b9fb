//! A bare HTTP client for the tests: method, URL and body go in, the answer comes out as it is.

use std::error::Error;

use serde_json::Value;

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Without its parameters; empty when there is none.
    pub(crate) content_type: String,
    pub(crate) text: String,
}

impl Reply {
    /// The body as JSON, if it is that.
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_str(&self.text).ok()
    }
}

/// The client; one for all requests of a test, so that connections are kept.
pub(crate) fn client() -> reqwest::Client {
    // Fails only when a provider is there already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("an HTTP client without options")
}

/// Sends one request. The body goes with its content type.
pub(crate) async fn send(
    client: &reqwest::Client,
    method: &str,
    url: &str,
    body: Option<(&str, String)>,
) -> Result<Reply, Box<dyn Error>> {
    let mut request = client.request(method.parse()?, url);
    if let Some((content_type, body)) = body {
        request = request.header("content-type", content_type).body(body);
    }
    let response = request.send().await?;
    let content_type = match response.headers().get("content-type") {
        Some(value) => value.to_str()?.split(';').next().unwrap_or_default().to_owned(),
        None => String::new(),
    };
    Ok(Reply { status: response.status().as_u16(), content_type, text: response.text().await? })
}

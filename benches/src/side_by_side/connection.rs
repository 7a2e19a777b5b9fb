//! One keep-alive connection, plain or TLS, that costs as little as can be: a request is a buffer that is written, an
//! answer is read up to its length. What is left over on a shared machine is the server's.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A first guess at the length of an answer.
const READ_BUFFER_BYTES: usize = 8 << 10;

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A connection.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
}

/// An answer, as far as it is looked at.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

/// What a TLS connection has to trust.
pub(crate) fn tls(ca: &Path) -> anyhow::Result<TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca)? {
        roots.add(certificate?)?;
    }
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

impl Connection {
    /// Connects, over TLS where there is something to trust.
    pub(crate) async fn open(address: SocketAddr, tls: Option<&TlsConnector>) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot reach {address}"))?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match tls {
            Some(tls) => Box::new(tls.connect(ServerName::try_from("localhost")?, stream).await?),
            None => Box::new(stream),
        };
        Ok(Self { stream, buffer: Vec::with_capacity(READ_BUFFER_BYTES) })
    }

    /// Sends a whole request and reads the whole answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        self.buffer.clear();
        let head = loop {
            self.read_more().await?;
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break Head::read(&self.buffer[..end + 4])?;
            }
        };
        let whole = head.bytes + head.body_bytes;
        while self.buffer.len() < whole {
            self.read_more().await?;
        }
        ensure!(self.buffer.len() == whole, "more came than was asked for");
        Ok(Answer { status: head.status, body: &self.buffer[head.bytes..] })
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server has closed the connection");
        Ok(())
    }
}

/// What is read of an answer's head.
struct Head {
    bytes: usize,
    status: u16,
    body_bytes: usize,
}

impl Head {
    fn read(head: &[u8]) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(head)?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("no status")?.parse()?;
        let length = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then_some(value.trim())
        });
        let Some(length) = length else { bail!("an answer without its length: {text}") };
        Ok(Self { bytes: head.len(), status, body_bytes: length.parse()? })
    }
}

/// Where a text begins.
pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// A request with a JSON body, or none.
pub(crate) fn request(method: &str, target: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

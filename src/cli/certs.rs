//! `isvc-registrar certs`: a certificate authority and a leaf for development.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::certs::issue::Authority;

/// Keys are for their owner alone.
const KEY_MODE: u32 = 0o600;
/// Certificates are for everybody.
const CERTIFICATE_MODE: u32 = 0o644;

/// Flags of `certs`.
#[derive(Debug, Clone, Args)]
pub struct CertsArgs {
    /// Folder to write ca.crt, ca.key, tls.crt and tls.key to; created when missing
    #[arg(long, env = "ISVC_REGISTRAR_DIR", default_value = "certs")]
    pub dir: PathBuf,

    /// DNS name or address that the server certificate is for; repeatable
    #[arg(
        long,
        env = "ISVC_REGISTRAR_DNS",
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "localhost"
    )]
    pub dns: Vec<String>,
}

pub(super) fn run(args: &CertsArgs) -> anyhow::Result<()> {
    let authority = Authority::for_development()?;
    let leaf = authority.issue(&args.dns)?;
    fs::create_dir_all(&args.dir).with_context(|| format!("cannot create {}", args.dir.display()))?;
    write(&args.dir.join("ca.crt"), &authority.certificate, CERTIFICATE_MODE)?;
    write(&args.dir.join("ca.key"), &authority.key, KEY_MODE)?;
    write(&args.dir.join("tls.crt"), &leaf.certificate, CERTIFICATE_MODE)?;
    write(&args.dir.join("tls.key"), &leaf.key, KEY_MODE)
}

/// Writes a file that never has a wider mode than the one given, not even for a moment.
fn write(path: &Path, content: &str, mode: u32) -> anyhow::Result<()> {
    let written = || -> std::io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(content.as_bytes())
    };
    written().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_are_written_for_their_owner_alone_also_over_old_files() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ca.key"), "old").unwrap();
        run(&CertsArgs { dir: dir.path().into(), dns: vec!["a.example".into()] }).unwrap();
        for (name, mode) in [("ca.crt", 0o644), ("ca.key", 0o600), ("tls.crt", 0o644), ("tls.key", 0o600)] {
            let metadata = fs::metadata(dir.path().join(name)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, mode, "{name}");
        }
    }
}

//! Writes a volume's files so that a reader sees all of the old ones or all of the new ones.
//!
//! In: a folder and the files it should hold. Out: the folder, laid out as the kubelet does it: the files lie in a
//! hidden folder of their own, `..data` is a symlink to that, and each visible name is a symlink through `..data`.
//! What stays true: an update is one rename of `..data`, so a program that watches single files sees nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// The symlink that is swapped.
const DATA: &str = "..data";

/// A file of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) content: Vec<u8>,
    pub(super) mode: u32,
    /// Who owns it, when that is not root.
    pub(super) owner: Option<u32>,
    /// Its group, when that is not root's.
    pub(super) group: Option<u32>,
}

/// The files of a volume, by their path in it.
pub(super) type Files = BTreeMap<PathBuf, File>;

/// Writes one volume again and again.
#[derive(Debug)]
pub(super) struct VolumeWriter {
    folder: PathBuf,
    generation: u64,
    written: Option<Files>,
}

impl VolumeWriter {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, generation: 0, written: None }
    }

    /// Makes the volume hold exactly these files; does nothing when it does.
    pub(super) fn write(&mut self, files: Files) -> Result<()> {
        if self.written.as_ref() == Some(&files) {
            return Ok(());
        }
        self.replace(&files).with_context(|| format!("cannot write volume {}", self.folder.display()))?;
        self.written = Some(files);
        Ok(())
    }

    fn replace(&mut self, files: &Files) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        self.generation += 1;
        let name = format!("..generation-{}", self.generation);
        let generation = self.folder.join(&name);
        for (path, file) in files {
            let path = generation.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&path, &file.content)?;
            fs::set_permissions(&path, Permissions::from_mode(file.mode))?;
            chown(&path, file.owner, file.group)?;
        }
        fs::create_dir_all(&generation)?;

        let data = self.folder.join(DATA);
        let previous = fs::read_link(&data).ok();
        let fresh = self.folder.join("..data_tmp");
        symlink(&name, &fresh)?;
        fs::rename(&fresh, &data)?;

        self.link(files)?;
        if let Some(previous) = previous {
            fs::remove_dir_all(self.folder.join(previous))?;
        }
        Ok(())
    }

    /// Brings the visible names up to date.
    fn link(&self, files: &Files) -> io::Result<()> {
        let visible: BTreeSet<&OsStr> = files
            .keys()
            .filter_map(|path| match path.components().next() {
                Some(Component::Normal(name)) => Some(name),
                _ => None,
            })
            .collect();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            if !name.as_encoded_bytes().starts_with(b"..") && !visible.contains(name.as_os_str()) {
                fs::remove_file(self.folder.join(name))?;
            }
        }
        for name in visible {
            let link = self.folder.join(name);
            if fs::symlink_metadata(&link).is_err() {
                symlink(Path::new(DATA).join(name), link)?;
            }
        }
        Ok(())
    }
}

//! A disk whose power can be cut: a file system in memory, mounted with FUSE, that forgets what was not synced.
//!
//! Under `Rules::Strict`, as POSIX has it, fsync keeps the file or the directory that it is called on and nothing else:
//! a file whose name was not synced in its directory is gone. Under `Rules::Ext4` names become durable in the order in
//! which they were changed, and every fsync keeps all of them. In both, what was not synced may survive or not, block
//! by block. Needs /dev/fuse and, unless run as root, `fusermount3` (`apt-get install fuse3`).

mod fuse;
mod model;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fuser::{BackgroundSession, Config};
use tokio::sync::Mutex;

use self::fuse::Adapter;
use self::model::Model;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    Strict,
    Ext4,
}

/// A seeded random number generator, to replay a failure.
#[derive(Clone, Copy, Debug)]
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[derive(Debug)]
pub struct PowerCutDisk {
    model: Arc<Mutex<Model>>,
    fails: Arc<AtomicBool>,
    session: Option<BackgroundSession>,
    directory: tempfile::TempDir,
}

impl PowerCutDisk {
    pub fn new(rules: Rules) -> Self {
        let mut disk = Self {
            model: Arc::new(Mutex::new(Model::new(rules))),
            fails: Arc::default(),
            session: None,
            directory: tempfile::tempdir().expect("a temporary directory"),
        };
        disk.mount();
        disk
    }

    fn mount(&mut self) {
        let adapter = Adapter { model: self.model.clone(), fails: self.fails.clone() };
        let session = fuser::spawn_mount(adapter, self.directory.path(), &Config::default());
        self.session =
            Some(session.expect("FUSE works: apt-get install fuse3, and /dev/fuse must be accessible"));
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A directory that does not exist yet.
    pub fn data_dir(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Cuts the power and turns it on again. Nobody may use the disk meanwhile.
    pub async fn cut(&mut self, chance: &mut Chance) {
        let session = self.session.take().expect("it is mounted");
        let unmounted = tokio::task::spawn_blocking(move || session.umount_and_join());
        unmounted.await.expect("no panic").expect("nobody uses the disk");
        self.model.lock().await.cut(chance);
        self.mount();
    }

    /// Every sync fails from now on, or works again.
    pub fn fail_syncs(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }
}

/// Also after a failed test, whose server may still use the disk.
impl Drop for PowerCutDisk {
    fn drop(&mut self) {
        let unmounted =
            std::process::Command::new("fusermount3").args(["-u", "-z"]).arg(self.path()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted", self.path().display());
        }
    }
}

//! The calls of the kernel, answered from the model. Locks are the kernel's own.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use tokio::sync::Mutex;

use super::model::{Directory, File, Model, Node, Number};

/// Nothing is cached: what the kernel knows could be older than a power cut.
const TTL: Duration = Duration::ZERO;

pub(super) struct Adapter {
    pub(super) model: Arc<Mutex<Model>>,
    pub(super) fails: Arc<AtomicBool>,
}

fn attributes(request: &Request, number: Number, node: &Node) -> FileAttr {
    let (kind, perm, size) = match node {
        Node::File(file) => (FileType::RegularFile, 0o644, file.bytes.len() as u64),
        Node::Directory(_) => (FileType::Directory, 0o755, 0),
    };
    let time = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(number),
        size,
        blocks: size.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm,
        nlink: 1,
        uid: request.uid(),
        gid: request.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Adapter {
    fn make(&self, request: &Request, parent: INodeNo, name: &OsStr, node: Node) -> Option<FileAttr> {
        let mut model = self.model.blocking_lock();
        let number = model.create(parent.0, name, node)?;
        model.node(number).map(|node| attributes(request, number, node))
    }

    fn sync(&self, number: INodeNo, reply: ReplyEmpty) {
        if self.fails.load(Ordering::SeqCst) {
            return reply.error(Errno::EIO);
        }
        self.model.blocking_lock().sync(number.0);
        reply.ok();
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.model.blocking_lock().remove(parent.0, name) {
            Some(()) => reply.ok(),
            None => reply.error(Errno::ENOENT),
        }
    }
}

impl Filesystem for Adapter {
    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let model = self.model.blocking_lock();
        let found = model.find(parent.0, name).and_then(|number| Some((number, model.node(number)?)));
        match found {
            Some((number, node)) => reply.entry(&TTL, &attributes(request, number, node), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, request: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.model.blocking_lock().node(number.0) {
            Some(node) => reply.attr(&TTL, &attributes(request, number.0, node)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        length: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut model = self.model.blocking_lock();
        if let (Some(length), Some(file)) = (length, model.file(number.0)) {
            file.resize(size(length));
        }
        match model.node(number.0) {
            Some(node) => reply.attr(&TTL, &attributes(request, number.0, node)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        match self.make(request, parent, name, Node::Directory(Directory::default())) {
            Some(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(request, parent, name, Node::File(File::default())) {
            Some(attributes) => {
                reply.created(&TTL, &attributes, Generation(0), FileHandle(0), FopenFlags::empty());
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        match self.model.blocking_lock().rename((parent.0, name), (new_parent.0, new_name)) {
            Some(()) => reply.ok(),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.model.blocking_lock().file(number.0) {
            Some(file) => {
                let start = size(offset).min(file.bytes.len());
                let end = (start + length as usize).min(file.bytes.len());
                reply.data(&file.bytes[start..end]);
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.model.blocking_lock().file(number.0) {
            Some(file) => {
                file.write(size(offset), data);
                reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX));
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        _mode: i32,
        reply: ReplyEmpty,
    ) {
        match self.model.blocking_lock().file(number.0) {
            Some(file) => {
                file.resize(file.bytes.len().max(size(offset + length)));
                reply.ok();
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.sync(number, reply);
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.sync(number, reply);
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let model = self.model.blocking_lock();
        let Some(Node::Directory(directory)) = model.node(number.0) else {
            return reply.error(Errno::ENOENT);
        };
        for ((name, child), next) in directory.names.iter().zip(1..).skip(size(offset)) {
            let kind = match model.node(*child) {
                Some(Node::Directory(_)) => FileType::Directory,
                _ => FileType::RegularFile,
            };
            if reply.add(INodeNo(*child), next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = 1 << 20;
        reply.statfs(blocks, blocks, blocks, blocks, blocks, 4096, 255, 4096);
    }
}

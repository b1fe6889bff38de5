//! What the disk holds now, and what it would hold after a power cut.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};

use super::{Chance, Rules};

pub(super) type Number = u64;
pub(super) const ROOT: Number = 1;
const BLOCK: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    durable: Vec<u8>,
    /// Blocks that differ from what is durable.
    unsynced: BTreeSet<usize>,
}

impl File {
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.bytes.len() < end {
            self.resize(end);
        }
        self.bytes[at..end].copy_from_slice(bytes);
        self.unsynced.extend(at / BLOCK..end.div_ceil(BLOCK));
    }

    pub(super) fn resize(&mut self, length: usize) {
        let from = self.bytes.len().min(length);
        let to = self.bytes.len().max(length);
        self.bytes.resize(length, 0);
        self.unsynced.extend(from / BLOCK..to.div_ceil(BLOCK));
    }

    fn sync(&mut self) {
        for block in std::mem::take(&mut self.unsynced) {
            self.keep(block);
        }
        self.durable.truncate(self.bytes.len());
    }

    fn keep(&mut self, block: usize) {
        let start = block * BLOCK;
        let end = (start + BLOCK).min(self.bytes.len());
        if start < end {
            self.durable.resize(self.durable.len().max(end), 0);
            self.durable[start..end].copy_from_slice(&self.bytes[start..end]);
        }
    }

    fn cut(&mut self, chance: &mut Chance) {
        for block in std::mem::take(&mut self.unsynced) {
            if chance.below(2) == 0 {
                self.keep(block);
            }
        }
        self.bytes.clone_from(&self.durable);
    }
}

type Names = BTreeMap<OsString, Number>;

#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) names: Names,
    durable: Names,
}

#[derive(Debug)]
pub(super) enum Node {
    File(File),
    Directory(Directory),
}

/// A change of names in a directory that is not synced yet.
#[derive(Debug)]
enum Change {
    Add(Number, OsString, Number),
    Remove(Number, OsString),
    /// Atomic, also in a power cut.
    Move {
        from: (Number, OsString),
        to: (Number, OsString),
    },
}

impl Change {
    fn is_in(&self, directory: Number) -> bool {
        match self {
            Self::Add(parent, ..) | Self::Remove(parent, _) => *parent == directory,
            Self::Move { from, to } => from.0 == directory || to.0 == directory,
        }
    }
}

#[derive(Debug)]
pub(super) struct Model {
    rules: Rules,
    nodes: HashMap<Number, Node>,
    next: Number,
    unsynced: Vec<Change>,
}

impl Model {
    pub(super) fn new(rules: Rules) -> Self {
        let nodes = HashMap::from([(ROOT, Node::Directory(Directory::default()))]);
        Self { rules, nodes, next: ROOT + 1, unsynced: Vec::new() }
    }

    pub(super) fn node(&self, number: Number) -> Option<&Node> {
        self.nodes.get(&number)
    }

    pub(super) fn file(&mut self, number: Number) -> Option<&mut File> {
        match self.nodes.get_mut(&number)? {
            Node::File(file) => Some(file),
            Node::Directory(_) => None,
        }
    }

    fn directory(&mut self, number: Number) -> Option<&mut Directory> {
        match self.nodes.get_mut(&number)? {
            Node::Directory(directory) => Some(directory),
            Node::File(_) => None,
        }
    }

    pub(super) fn find(&self, parent: Number, name: &OsStr) -> Option<Number> {
        match self.nodes.get(&parent)? {
            Node::Directory(directory) => directory.names.get(name).copied(),
            Node::File(_) => None,
        }
    }

    pub(super) fn create(&mut self, parent: Number, name: &OsStr, node: Node) -> Option<Number> {
        let number = self.next;
        self.directory(parent)?.names.insert(name.to_owned(), number);
        self.next += 1;
        self.nodes.insert(number, node);
        self.unsynced.push(Change::Add(parent, name.to_owned(), number));
        Some(number)
    }

    pub(super) fn remove(&mut self, parent: Number, name: &OsStr) -> Option<()> {
        self.directory(parent)?.names.remove(name)?;
        self.unsynced.push(Change::Remove(parent, name.to_owned()));
        Some(())
    }

    pub(super) fn rename(&mut self, from: (Number, &OsStr), to: (Number, &OsStr)) -> Option<()> {
        let number = self.directory(from.0)?.names.remove(from.1)?;
        self.directory(to.0)?.names.insert(to.1.to_owned(), number);
        let (from, to) = ((from.0, from.1.to_owned()), (to.0, to.1.to_owned()));
        self.unsynced.push(Change::Move { from, to });
        Some(())
    }

    /// Makes a file or a directory durable.
    pub(super) fn sync(&mut self, number: Number) {
        if let Some(file) = self.file(number) {
            file.sync();
        }
        let (keep, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.unsynced)
            .into_iter()
            .partition(|change| self.rules == Rules::Ext4 || change.is_in(number));
        self.unsynced = later;
        for change in keep {
            self.keep(change);
        }
    }

    fn keep(&mut self, change: Change) {
        match change {
            Change::Add(parent, name, number) => {
                self.directory(parent).map(|directory| directory.durable.insert(name, number));
            }
            Change::Remove(parent, name) => {
                self.directory(parent).map(|directory| directory.durable.remove(&name));
            }
            Change::Move { from, to } => {
                // If the file's creation was forgotten, there is nothing to move.
                let moved = self.directory(from.0).and_then(|directory| directory.durable.remove(&from.1));
                if let (Some(number), Some(directory)) = (moved, self.directory(to.0)) {
                    directory.durable.insert(to.1, number);
                }
            }
        }
    }

    /// Forgets what was not synced: each change for itself, or all from some moment on.
    pub(super) fn cut(&mut self, chance: &mut Chance) {
        let changes = std::mem::take(&mut self.unsynced);
        let in_order = chance.below(changes.len() as u64 + 1);
        for (at, change) in (0..).zip(changes) {
            let survives = match self.rules {
                Rules::Strict => chance.below(2) == 0,
                Rules::Ext4 => at < in_order,
            };
            if survives {
                self.keep(change);
            }
        }
        for number in self.nodes.keys().copied().collect::<BTreeSet<_>>() {
            match self.nodes.get_mut(&number) {
                Some(Node::File(file)) => file.cut(chance),
                Some(Node::Directory(directory)) => directory.names.clone_from(&directory.durable),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(model: &Model, number: Number) -> Vec<String> {
        let Some(Node::Directory(directory)) = model.node(number) else { panic!("no directory") };
        directory.names.keys().map(|name| name.to_string_lossy().into_owned()).collect()
    }

    /// A file that was synced in a directory that was not.
    fn survivors(rules: Rules) -> usize {
        (0..64)
            .filter(|seed| {
                let mut model = Model::new(rules);
                let directory = Node::Directory(Directory::default());
                let directory = model.create(ROOT, OsStr::new("d"), directory).unwrap();
                let file = model.create(directory, OsStr::new("f"), Node::File(File::default())).unwrap();
                model.file(file).unwrap().write(0, b"bytes");
                model.sync(file);
                model.sync(directory);
                model.cut(&mut Chance(*seed));
                let survived = names(&model, ROOT) == ["d"];
                assert!(!survived || names(&model, directory) == ["f"]);
                assert_eq!(model.file(file).unwrap().bytes, b"bytes");
                survived
            })
            .count()
    }

    #[test]
    fn a_directory_needs_its_parent_to_be_synced_only_where_the_rules_say_so() {
        assert!((1..64).contains(&survivors(Rules::Strict)));
        assert_eq!(survivors(Rules::Ext4), 64);
    }

    #[test]
    fn unsynced_blocks_survive_or_not() {
        let mut seen = BTreeSet::new();
        for seed in 0..64 {
            let mut file = File::default();
            file.write(0, &[1; 2 * BLOCK]);
            file.sync();
            file.write(0, &[2; 2 * BLOCK]);
            file.cut(&mut Chance(seed));
            seen.insert((file.bytes[0], file.bytes[BLOCK]));
        }
        assert_eq!(seen, BTreeSet::from([(1, 1), (1, 2), (2, 1), (2, 2)]));
    }
}

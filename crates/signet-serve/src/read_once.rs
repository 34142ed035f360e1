//! Files that are read once, for what is made of them and for what is told of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use zeroize::Zeroizing;

/// What a file holds; it may be a key.
pub(crate) type Bytes = Rc<Zeroizing<Vec<u8>>>;

/// Files by their paths. Another may take the place of one at any time: whatever asks here for
/// one is given the same bytes.
#[derive(Default)]
pub(crate) struct ReadOnce(RefCell<BTreeMap<PathBuf, Bytes>>);

impl ReadOnce {
    /// What a file held when it was asked for first.
    pub(crate) fn read(&self, file: &Path) -> io::Result<Bytes> {
        if let Some(known) = self.0.borrow().get(file) {
            return Ok(known.clone());
        }
        let bytes: Bytes = Rc::new(Zeroizing::new(std::fs::read(file)?));
        self.0.borrow_mut().insert(file.to_owned(), bytes.clone());
        Ok(bytes)
    }
}

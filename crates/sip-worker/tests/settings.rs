//! Who is told of other settings.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::*;
use sip_worker::{Mailbox, Worker};

/// Else each command that changes a user would have the certificates of all peers verified again.
#[test]
fn sockets_are_not_told_of_what_is_written_of_people() {
    let mailboxes = vec![Mailbox::new(16, Nothing)];
    let parts = parts_among(0, mailboxes, Front::default(), settings());
    let control = Arc::clone(&parts.control);
    let mut worker = Worker::new(parts, NOW);
    let mut wire = Wire::default();
    control.reload_people(Arc::new(settings()));
    assert!(worker.begin_turn(&mut wire));
    assert!(control.is_taken_over());
    assert_eq!(wire.told, 0);
    // What comes behind a reload, before a worker has looked, does not hide it.
    control.reload(Arc::new(settings()));
    control.reload_people(Arc::new(settings()));
    for _ in 0..2 {
        assert!(worker.begin_turn(&mut wire));
        assert!(control.is_taken_over());
        assert_eq!(wire.told, 1);
    }
    control.reload_people(Arc::new(settings()));
    assert!(worker.begin_turn(&mut wire));
    assert_eq!(wire.told, 1);
}

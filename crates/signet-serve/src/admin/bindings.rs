//! Where users are registered, as the database has it.

use std::fmt::Write as _;

use sip_engine::BindingChange;
use sip_net::clock;
use sip_store::{BindingStore, Database};

use super::{Instance, say};
use crate::Error;

/// Lists the bindings that are alive, of all users or of one.
pub fn bindings(place: &Instance, user: Option<&str>) -> Result<(), Error> {
    place.must_exist()?;
    let opened = place.open()?;
    let wanted = user.map(|user| {
        let bare = user.strip_prefix("sip:").unwrap_or(user);
        if bare.contains('@') {
            format!(":{bare}")
        } else {
            format!(":{bare}@{}", opened.domain)
        }
    });
    let database = Database::open(&opened.data.database())?;
    let mut bindings = database.bindings()?;
    let now_ms = clock::unix_ms();
    let mut text = String::new();
    let listed = bindings.load(now_ms, &mut |change| {
        let BindingChange::Put { aor, binding, .. } = change else {
            return;
        };
        let aor = String::from_utf8_lossy(&aor);
        if wanted.as_ref().is_none_or(|wanted| aor.ends_with(wanted)) {
            let left_s = binding.expires_unix_ms.saturating_sub(now_ms) / 1_000;
            let _ = writeln!(
                text,
                "{aor} at {} for {left_s} s{}",
                binding.uri.escape_ascii(),
                match binding.user_agent.as_ref() {
                    [] => String::new(),
                    user_agent => format!(" by {}", user_agent.escape_ascii()),
                }
            );
        }
    });
    listed?;
    if text.is_empty() {
        text = match user {
            Some(user) => format!("{user} has no contacts\n"),
            None => "nobody has contacts\n".to_owned(),
        };
    }
    say(&text)
}

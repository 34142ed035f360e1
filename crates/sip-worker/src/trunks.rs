//! The operator is told how registrations with providers stand, and of passwords that are
//! refused.

use sip_engine::trunk::{Change, Failure, TrunkEvent};

/// A line for each change; the worker that has the registration, or met the refusal, tells it.
pub(super) fn log(name: &str, event: &TrunkEvent) {
    match event {
        TrunkEvent::Registration(Change::Registered { expires_s }) => {
            tracing::info!(trunk = name, expires_s, "a trunk is registered");
        }
        TrunkEvent::Registration(Change::Failed {
            why,
            realm,
            again_ms,
        }) => {
            let again_s = again_ms / 1_000;
            let status = match why {
                Failure::Refused(status) => Some(*status),
                _ => None,
            };
            let realm = (!realm.is_empty()).then_some(&**realm);
            tracing::warn!(
                trunk = name,
                why = why.name(),
                status,
                realm,
                again_s,
                "a trunk is not registered: {}; `signet trunks` shows it",
                why.text()
            );
        }
        TrunkEvent::Registration(Change::Ended) => {
            tracing::info!(trunk = name, "the registration of a trunk was taken back");
        }
        TrunkEvent::PasswordRefused { for_ms } => {
            let for_s = for_ms / 1_000;
            tracing::warn!(
                trunk = name,
                for_s,
                "a trunk's password was refused: nothing is sent to it for {for_s} s; look at its password_file and auth_user"
            );
        }
    }
}

//! Names that a database refused a statement for.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::batch::Group;

/// How many are remembered, and for how long.
const SUSPECTS_MAX: usize = 64;
const SUSPECT: Duration = Duration::from_secs(60);

/// Names that were refused alone are asked for alone for a while, as in the pipeline, which does
/// not hear of them: here they are their own users' matter. The oldest makes room.
#[derive(Debug, Default)]
pub(crate) struct Suspects(VecDeque<Suspect>);

#[derive(Debug)]
struct Suspect {
    realm: String,
    name: String,
    until: Instant,
}

impl Suspects {
    /// Remembers the names of a group that was refused.
    pub(crate) fn note(&mut self, group: &Group) {
        for name in &group.names {
            self.0.retain(|one| !one.is(&group.realm, name));
            if self.0.len() >= SUSPECTS_MAX {
                self.0.pop_front();
            }
            self.0.push_back(Suspect {
                realm: group.realm.clone(),
                name: name.clone(),
                until: Instant::now() + SUSPECT,
            });
        }
    }

    /// Whether all names of a group are remembered.
    pub(crate) fn has(&self, group: &Group) -> bool {
        let is_one = |name: &String| self.0.iter().any(|one| one.is(&group.realm, name));
        group.names.iter().all(is_one)
    }

    /// The groups, with each name that is remembered in one of its own.
    pub(crate) fn apart(&mut self, groups: Vec<Group>) -> Vec<Group> {
        let now = Instant::now();
        while self.0.front().is_some_and(|oldest| oldest.until <= now) {
            self.0.pop_front();
        }
        if self.0.is_empty() {
            return groups;
        }
        let apart = groups.into_iter().flat_map(|group| {
            let realm = group.realm.clone();
            group.without(|name| self.0.iter().any(|one| one.is(&realm, name)))
        });
        apart.collect()
    }
}

impl Suspect {
    fn is(&self, realm: &str, name: &str) -> bool {
        self.realm == realm && self.name == name
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::sync::Arc;

    use sip_auth::Subject;

    use super::*;
    use crate::sql::groups;

    fn of(names: &[&str]) -> Vec<Group> {
        let subjects: Vec<Subject> = names
            .iter()
            .map(|name| Subject::new(name.as_bytes(), Arc::from("x.org")))
            .collect();
        groups(&subjects, 256, |subject| {
            str::from_utf8(subject.user()).ok().map(str::to_owned)
        })
    }

    fn names(groups: &[Group]) -> Vec<String> {
        groups.iter().map(|group| group.names.join(" ")).collect()
    }

    #[test]
    fn a_name_that_was_refused_is_alone_for_a_while_and_the_oldest_makes_room() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut suspects = Suspects::default();
            let asked = || of(&["ä", "ö", "ü", "a"]);
            assert_eq!(names(&suspects.apart(asked())), ["ä ö ü", "a"]);
            suspects.note(&of(&["ö"])[0]);
            assert_eq!(names(&suspects.apart(asked())), ["ä ü", "ö", "a"]);
            assert_eq!(names(&suspects.apart(of(&["ö"]))), ["ö"]);
            tokio::time::advance(SUSPECT).await;
            assert_eq!(names(&suspects.apart(asked())), ["ä ö ü", "a"]);
            suspects.note(&of(&["ö"])[0]);
            for nth in 0..SUSPECTS_MAX {
                suspects.note(&of(&[&format!("é{nth}")])[0]);
            }
            assert_eq!(names(&suspects.apart(asked())), ["ä ö ü", "a"]);
        });
    }
}

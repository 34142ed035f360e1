//! The price of a packet: AH and ESP in user space, and the bare primitives beside.

mod choice;
mod packet;
mod speed;
mod subject;
mod text;
mod versions;
mod work;

use ipsec::primitive::Provider;
use signet_bed::Error;

use crate::record::Missed;
use crate::timing::Job;
use subject::Subject;

pub use choice::{Choice, SIZE_BYTES_MAX, SIZES_BYTES};
pub use speed::{check, openssl};
pub(crate) use text::columns;
pub use text::told;
pub use versions::versions;

/// The work of a choice, and what of it nobody here can do.
///
/// # Errors
/// A packet that does not come back as it was: a fault of this program.
pub fn jobs(choice: &Choice) -> Result<(Vec<Job>, Vec<Missed>), Error> {
    let (mut jobs, mut missed) = (Vec::new(), Vec::new());
    let subjects: Vec<Subject> = Subject::all().filter(|it| choice.takes(it)).collect();
    for &provider in choice.providers() {
        for subject in &subjects {
            match subject.jobs(provider, choice.sizes_bytes())? {
                Ok(more) => jobs.extend(more),
                // The bare primitive says it once for everything that is made of it.
                Err(why) if subject.is_primitive() => missed.push(Missed {
                    name: subject.name(),
                    provider: provider.name().to_owned(),
                    why: why.why().to_owned(),
                }),
                Err(_) => {}
            }
        }
    }
    if jobs.is_empty() {
        return Err(Error::new(
            "no provider of this choice has any of these algorithms",
            format!(
                "leave --provider out, or name others of: {}",
                provider_names()
            ),
        ));
    }
    Ok((jobs, missed))
}

/// The names of all that can be priced, each with whether a choice has it.
pub fn names(choice: &Choice) -> Vec<(String, bool)> {
    let all = Subject::all();
    all.map(|subject| (subject.name(), choice.takes(&subject)))
        .collect()
}

fn provider_names() -> String {
    let names: Vec<&str> = Provider::ALL
        .iter()
        .map(|provider| provider.name())
        .collect();
    names.join(", ")
}

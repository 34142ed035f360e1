//! The page of an experiment: what was asked, what was found, and how.

mod beside;
mod checked;
mod drawn;
pub(crate) mod figures;
mod machine;
mod missed;
mod published;
#[cfg(test)]
pub(crate) mod sample;
mod together;

use invariant::broken;
use serde::Serialize;
use serde_json::json;
use signet_page::Pages;
use signet_page::chart::Figure;

use crate::experiment::{Answer, Experiment, Finding, Verdict};
use crate::names::{self, Names};
use crate::record::Record;

pub use together::table;

/// The raw record's name where nobody says another.
pub const RAW_NAME: &str = "record.json";

/// The page of a record, one file that needs no other. `raw` is the name of the record's file.
pub fn render(experiment: &Experiment, record: &Record, raw: &str) -> String {
    let names = Names::new(experiment, record);
    let findings = findings(experiment, record);
    let beside = beside::beside(experiment, record, &names);
    let charts = drawn::figures(experiment, record, &names);
    let plan = match record.form.as_str() {
        "long" => &experiment.long,
        _ => &experiment.short,
    };
    let took_s = record
        .ended_unix_s
        .map(|end| end.saturating_sub(record.started_unix_s));
    let values = json!({
        "experiment": {
            "title": experiment.title,
            "question": experiment.question,
            "spread_max": experiment.spread_max,
        },
        "differs": experiment.differs,
        "paper": experiment.paper.as_ref().map(|paper| json!({
            "authors": paper.authors,
            "title": paper.title,
            "venue": paper.venue,
            "year": paper.year,
            "setting": paper.setting,
        })),
        "lead": lead(&findings, &beside, &names),
        "findings": findings,
        "check": checked::checked(experiment, record, &names),
        "charts": charts.iter().map(|drawn| json!({
            "html": drawn.figure.html(),
            "notes": drawn.notes,
        })).collect::<Vec<_>>(),
        "beside": beside,
        "published": published::published(experiment, record, &names),
        "published_systems": published::systems(&names),
        "missed": missed::missed(experiment, record, &names),
        "not_for": not_for(experiment, &names),
        "plan": {
            "repeats": plan.repeats,
            "peak_repeats": plan.peak_repeats,
            "warm_up_s": plan.warm_up_s,
            "measure_s": plan.measure_s,
        },
        "record": Head::of(record),
        "share": machine::share(record),
        "took_s": took_s,
        "moved": machine::moved(record),
        "pace": machine::figure(record).as_ref().map(Figure::html),
        "raw": raw,
    });
    filled("experiment.html", &values)
}

/// Fills one of the templates in.
fn filled(name: &str, values: &serde_json::Value) -> String {
    let templates = [
        ("experiment.html", include_str!("experiment.html")),
        ("beside.html", include_str!("beside.html")),
        ("together.html", include_str!("together.html")),
    ];
    match Pages::new(&templates).and_then(|pages| pages.render(name, values)) {
        Ok(page) => page,
        // They are part of the program, and each is filled in by a test.
        Err(error) => broken!("the templates are right", error.to_string()),
    }
}

/// What a page says of a record as a whole; not its results.
#[derive(Serialize)]
struct Head<'a> {
    experiment: &'a str,
    form: &'a str,
    command: &'a str,
    seed: u64,
    started_unix_s: u64,
    ended_unix_s: Option<u64>,
    machine: &'a crate::record::Machine,
    versions: &'a std::collections::BTreeMap<String, String>,
}

impl<'a> Head<'a> {
    fn of(record: &'a Record) -> Self {
        Self {
            experiment: &record.experiment,
            form: &record.form,
            command: &record.command,
            seed: record.seed,
            started_unix_s: record.started_unix_s,
            ended_unix_s: record.ended_unix_s,
            machine: &record.machine,
            versions: &record.versions,
        }
    }
}

/// A finding with its answers.
#[derive(Serialize)]
struct Found {
    statement: String,
    place: String,
    answers: Vec<Answered>,
}

/// The answer for a system.
#[derive(Serialize)]
struct Answered {
    system: String,
    #[serde(skip)]
    verdict: Verdict,
    word: &'static str,
    class: &'static str,
    sentence: String,
}

fn answered(answer: Answer) -> Answered {
    let (word, class) = match answer.verdict {
        Verdict::Yes => ("yes", "yes"),
        Verdict::No => ("no", "no"),
        Verdict::Differently => ("differently", "no"),
        Verdict::NotMeasured => ("not decided", "faint"),
    };
    Answered {
        system: names::system(&answer.system),
        verdict: answer.verdict,
        word,
        class,
        sentence: capitalised(&answer.sentence),
    }
}

/// A sentence begins with a capital; the template ends it.
fn capitalised(sentence: &str) -> String {
    let mut letters = sentence.trim_end_matches('.').chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn findings(experiment: &Experiment, record: &Record) -> Vec<Found> {
    let found = |finding: &Finding| Found {
        statement: finding.statement.clone(),
        place: finding.place.clone(),
        answers: finding
            .answer(experiment, record)
            .into_iter()
            .map(answered)
            .collect(),
    };
    experiment.findings.iter().map(found).collect()
}

/// What was found, in a sentence or two with numbers.
fn lead(findings: &[Found], beside: &beside::Beside, names: &Names<'_>) -> String {
    let mut sentences = Vec::new();
    if !findings.is_empty() {
        let of_system = |system: &&str| {
            let name = names::system(system);
            let count = |wanted: Verdict| {
                let answers = findings.iter().flat_map(|finding| &finding.answers);
                answers
                    .filter(|answer| answer.system == name && answer.verdict == wanted)
                    .count()
            };
            let told: Vec<String> = [
                (count(Verdict::Yes), "hold"),
                (count(Verdict::Differently), "differ"),
                (count(Verdict::No), "do not hold"),
                (count(Verdict::NotMeasured), "are not decided"),
            ]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {}", singular(count, word)))
            .collect();
            (!told.is_empty()).then(|| format!("for {name} {}", told.join(", ")))
        };
        let systems: Vec<String> = names.systems().iter().filter_map(of_system).collect();
        if !systems.is_empty() {
            let asked = findings
                .iter()
                .filter(|finding| !finding.answers.is_empty());
            let findings = match asked.count() {
                1 => "the paper's one finding".to_owned(),
                several => format!("the paper's {several} findings"),
            };
            sentences.push(format!("Of {findings}, {}.", systems.join("; ")));
        }
    }
    let means = beside.means.iter().filter(|mean| mean.cases > 1).take(2);
    let means: Vec<String> = means
        .map(|mean| {
            format!(
                "{} is {} of {}'s ({} to {})",
                mean.what, mean.mean, mean.other, mean.low, mean.high
            )
        })
        .collect();
    if !means.is_empty() {
        sentences.push(format!(
            "Over the cases that both did, Signet's {}.",
            means.join("; ")
        ));
    }
    if sentences.is_empty() {
        sentences.push("There is no figure yet that answers it.".to_owned());
    }
    sentences.join(" ")
}

/// One holds, several hold.
fn singular(count: usize, words: &str) -> &str {
    match (count, words) {
        (1, "hold") => "holds",
        (1, "differ") => "differs",
        (1, "do not hold") => "does not hold",
        (1, "are not decided") => "is not decided",
        _ => words,
    }
}

/// What a server cannot do, for those that were measured.
fn not_for(experiment: &Experiment, names: &Names<'_>) -> Vec<serde_json::Value> {
    let rules = experiment.not_for.iter();
    rules
        .filter(|rule| names.systems().contains(&rule.system.as_str()))
        .map(|rule| {
            json!({
                "system": names::system(&rule.system),
                "cases": names.pick(&rule.pick),
                "why": rule.why,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;

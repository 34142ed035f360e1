//! The record's file: written after each measurement, whole or not at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::experiment::{Case, Load};
use crate::record::{CaseResult, Record, read};

/// A record and where it is kept.
#[derive(Debug)]
pub struct RecordFile {
    path: PathBuf,
    /// What is known so far.
    pub record: Record,
}

impl RecordFile {
    /// A new one, written at once: better now than after an hour.
    ///
    /// # Errors
    /// That there is one already, or that it cannot be written.
    pub fn new(path: &Path, record: Record) -> Result<Self, Error> {
        if path.exists() {
            return Err(Error::new(
                format!("{} is there already", path.display()),
                "go on with it by --resume, or choose another --out",
            ));
        }
        let file = Self {
            path: path.to_owned(),
            record,
        };
        file.write()?;
        Ok(file)
    }

    /// The one of a run that was cut off.
    ///
    /// `fresh` is what the run would begin with; results, calibrations and the beginning
    /// are those of the file.
    ///
    /// # Errors
    /// That it is of another experiment, form or seed, that it was measured on another machine,
    /// network or address or of other programs, or that it cannot be read.
    pub fn resume(path: &Path, fresh: Record) -> Result<Self, Error> {
        let mut found = read(path)?;
        let differs = |what: &str, of_file: &str, of_run: &str| {
            Error::new(
                format!(
                    "{} is of the {what} `{of_file}`, and this run of `{of_run}`",
                    path.display()
                ),
                format!("resume it with the same {what}, or begin anew with another --out"),
            )
        };
        if found.experiment != fresh.experiment {
            return Err(differs("experiment", &found.experiment, &fresh.experiment));
        }
        if found.experiment_toml != fresh.experiment_toml {
            return Err(Error::new(
                format!(
                    "the file of experiment {} has changed since {} was begun",
                    fresh.experiment,
                    path.display()
                ),
                "put the file back, or begin anew with another --out",
            ));
        }
        if found.form != fresh.form {
            return Err(differs("form", &found.form, &fresh.form));
        }
        if found.seed != fresh.seed {
            let (of_file, of_run) = (found.seed.to_string(), fresh.seed.to_string());
            return Err(differs("seed", &of_file, &of_run));
        }
        let places = |record: &Record| {
            let place = |result: &CaseResult| (result.case.clone(), result.system.clone());
            record.results.iter().map(place).collect::<Vec<_>>()
        };
        if places(&found) != places(&fresh) {
            return Err(Error::new(
                format!("{} has other cases or systems", path.display()),
                "resume it with the same --cases and --systems, or begin anew with another --out",
            ));
        }
        must_be_alike(path, &found, &fresh)?;
        found.command = fresh.command;
        // What was in the way may be gone.
        for result in &mut found.results {
            result.missed = None;
        }
        let file = Self {
            path: path.to_owned(),
            record: found,
        };
        file.write()?;
        Ok(file)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The result of a case, a system and a load.
    pub fn result(&mut self, case: &Case, system: &str, load: &Load) -> Option<&mut CaseResult> {
        self.record.results.iter_mut().find(|result| {
            result.case.id == case.id && result.system == system && result.load == *load
        })
    }

    /// Puts it in the place of the one before, so that a reader, or a machine that fails,
    /// finds one of the two.
    ///
    /// # Errors
    /// Names the file; what was there before is there still.
    pub fn write(&self) -> Result<(), Error> {
        measure::file::write_json(&self.path, &self.record).map_err(|error| {
            let remedy =
                "make room there, and go on with --resume; what was measured before is kept";
            Error::new(error, remedy)
        })
    }
}

/// Whether what is measured from now on can stand beside what is there.
fn must_be_alike(path: &Path, found: &Record, fresh: &Record) -> Result<(), Error> {
    let (there, here) = (around(found), around(fresh));
    let nothing = String::new();
    for what in there.keys().chain(here.keys()) {
        let [was, is] = [&there, &here].map(|all| all.get(what).unwrap_or(&nothing));
        if was != is {
            return Err(Error::new(
                format!(
                    "{} was measured with the {what} `{was}`, and this run has `{is}`",
                    path.display()
                ),
                "go on as it was begun, or begin anew with another --out",
            ));
        }
    }
    Ok(())
}

/// All on which figures depend besides the experiment, by its name for readers.
fn around(record: &Record) -> BTreeMap<String, String> {
    let machine = &record.machine;
    let cores = machine.pinned.iter();
    let cores: Vec<String> = cores.map(|(who, core)| format!("{who} {core}")).collect();
    let address = record.address.clone().unwrap_or_default();
    let shares = match machine.has_shares {
        Some(true) => "held",
        Some(false) => "not held",
        None => "not asked for",
    };
    let mut all: BTreeMap<String, String> = [
        ("processor", machine.cpu_model.clone()),
        ("number of cores", machine.cores.to_string()),
        ("kernel", machine.kernel.clone()),
        ("network", machine.network.clone()),
        ("idle cores", machine.idle.clone()),
        ("place of each on cores", cores.join(", ")),
        ("shares of a core", shares.to_owned()),
        ("server at the address", address),
    ]
    .map(|(what, value)| (what.to_owned(), value))
    .into();
    for (name, version) in &record.versions {
        all.insert(format!("version of {name}"), version.clone());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FORMAT, Repeat, VERSION};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("signet-bed-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn fresh() -> Record {
        Record {
            format: FORMAT.to_owned(),
            version: VERSION,
            experiment: "tiny".to_owned(),
            experiment_toml: "name = \"tiny\"\n".to_owned(),
            form: "short".to_owned(),
            seed: 7,
            ..Record::default()
        }
    }

    #[test]
    fn a_record_that_is_there_is_not_written_over() {
        let folder = Folder::new("there");
        let path = folder.0.join("record.json");
        let mut file = RecordFile::new(&path, fresh()).unwrap();
        assert_eq!(read(&path).unwrap(), file.record);
        file.record.started_unix_s = 5;
        file.write().unwrap();
        assert_eq!(read(&path).unwrap().started_unix_s, 5);
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
        let error = RecordFile::new(&path, fresh()).unwrap_err().to_string();
        assert!(error.contains("--resume"), "{error}");
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let folder = Folder::new("full");
        let path = folder.0.join("record.json");
        let mut file = RecordFile::new(&path, fresh()).unwrap();
        // Nothing can be written where a folder stands in the way.
        let beside = format!("record.json.{}.tmp", std::process::id());
        std::fs::create_dir(folder.0.join(beside)).unwrap();
        file.record.started_unix_s = 5;
        let error = file.write().unwrap_err().to_string();
        assert!(error.contains("--resume"), "{error}");
        assert_eq!(read(&path).unwrap().started_unix_s, 0);
    }

    #[test]
    fn another_experiment_form_or_seed_is_refused() {
        let folder = Folder::new("other");
        let path = folder.0.join("record.json");
        RecordFile::new(&path, fresh()).unwrap();
        assert!(RecordFile::resume(&path, fresh()).is_ok());
        let with = |change: fn(&mut Record)| {
            let mut other = fresh();
            change(&mut other);
            RecordFile::resume(&path, other).unwrap_err().to_string()
        };
        assert!(with(|other| other.seed = 8).contains("seed `7`"));
        assert!(with(|other| other.form = "long".to_owned()).contains("form `short`"));
        assert!(with(|other| other.experiment = "big".to_owned()).contains("experiment `tiny`"));
        assert!(with(|other| other.experiment_toml.push('#')).contains("has changed"));
    }

    #[test]
    fn other_circumstances_are_refused() {
        let folder = Folder::new("around");
        let path = folder.0.join("record.json");
        let begun = || {
            let mut record = fresh();
            record.machine.network = "loopback".to_owned();
            record.address = Some("127.0.0.1:5060".to_owned());
            let versions = [("signet", "1"), ("signet-program", "9 bytes, 07")];
            record.versions = versions
                .map(|(name, version)| (name.to_owned(), version.to_owned()))
                .into();
            record
        };
        RecordFile::new(&path, begun()).unwrap();
        assert!(RecordFile::resume(&path, begun()).is_ok());
        let with = |change: fn(&mut Record)| {
            let mut other = begun();
            change(&mut other);
            RecordFile::resume(&path, other).unwrap_err().to_string()
        };
        let error = with(|other| other.machine.network = "namespaces".to_owned());
        assert!(error.contains("network `loopback`"), "{error}");
        let error = with(|other| other.machine.cpu_model = "another".to_owned());
        assert!(error.contains("processor ``"), "{error}");
        let error = with(|other| other.machine.idle = "awake".to_owned());
        assert!(error.contains("idle cores ``"), "{error}");
        let error = with(|other| other.machine.has_shares = Some(true));
        assert!(
            error.contains("shares of a core `not asked for`"),
            "{error}"
        );
        let error = with(|other| other.address = Some("127.0.0.2:5060".to_owned()));
        assert!(error.contains("address `127.0.0.1:5060`"), "{error}");
        let build = |other: &mut Record| {
            let program = other.versions.get_mut("signet-program").unwrap();
            program.push('8');
        };
        let error = with(build);
        assert!(error.contains("version of signet-program"), "{error}");
        let error = with(|other| {
            other
                .versions
                .insert("kamailio".to_owned(), "5.6".to_owned());
        });
        assert!(error.contains("version of kamailio ``"), "{error}");
        assert_eq!(read(&path).unwrap().versions, begun().versions);
    }

    #[test]
    fn what_is_no_record_is_told() {
        let folder = Folder::new("none");
        let path = folder.0.join("record.json");
        assert!(read(&path).unwrap_err().to_string().contains("cannot read"));
        for text in [
            "",
            "{}",
            "[]",
            "{\"format\": \"signet-load\", \"version\": 1}",
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("no record of a run"), "{error}");
        }
    }

    #[test]
    fn what_was_missed_is_tried_again() {
        use crate::experiment::{Case, Load, Setting};
        let folder = Folder::new("missed");
        let path = folder.0.join("record.json");
        let load = Load::Rate {
            per_s: 5.0,
            profile: false,
            for_check: false,
        };
        let case = Case {
            id: "a".to_owned(),
            labels: std::collections::BTreeMap::new(),
            setting: Setting::default(),
            loads: vec![load.clone()],
            below: Vec::new(),
        };
        let mut begun = fresh();
        begun.results.push(CaseResult {
            case: case.clone(),
            system: "signet".to_owned(),
            load: load.clone(),
            repeats: Vec::new(),
            missed: None,
        });
        let mut file = RecordFile::new(&path, begun.clone()).unwrap();
        let result = file.result(&case, "signet", &load).unwrap();
        result.missed = Some("it fell".to_owned());
        result.repeats.push(Repeat::default());
        file.write().unwrap();
        let mut again = RecordFile::resume(&path, begun).unwrap();
        let result = again.result(&case, "signet", &load).unwrap();
        assert_eq!((result.repeats.len(), &result.missed), (1, &None));
    }
}

//! Pages and comparisons from records in files.

use std::fs;
use std::path::{Path, PathBuf};

use measure::file::write_text;

use crate::compare::{Comparison, compare};
use crate::experiment::Experiment;
use crate::page;
use crate::record::{self, Record};
use crate::run::RECORD;

/// Reads a record.
fn read(path: &Path) -> Result<Record, String> {
    record::read(path).map_err(|error| error.to_string())
}

/// A record, and the experiment as it was when it was made.
fn read_both(path: &Path) -> Result<(Experiment, Record), String> {
    let record = read(path)?;
    let kept = format!("{} (experiment_toml)", path.display());
    let experiment = Experiment::from_text(Path::new(&kept), &record.experiment_toml)
        .map_err(|error| error.to_string())?;
    Ok((experiment, record))
}

/// The name by which a page calls its record.
fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// Draws the page of a record beside it, or of each record in a folder; gives the pages.
///
/// # Errors
/// Names the file that cannot be read or written; a folder must have a record.
pub fn report(path: &Path) -> Result<Vec<PathBuf>, String> {
    let records = if path.is_dir() {
        let records = records_in(path)?;
        if records.is_empty() {
            return Err(format!(
                "{}: there is no record of an experiment in it",
                path.display()
            ));
        }
        records
    } else {
        vec![path.to_path_buf()]
    };
    records
        .iter()
        .map(|path| {
            let (experiment, record) = read_both(path)?;
            let page = path.with_extension("html");
            write_text(&page, &page::render(&experiment, &record, &name_of(path)))?;
            Ok(page)
        })
        .collect()
}

/// Whether a path is a record of an experiment with servers, or a folder with one.
///
/// # Errors
/// Names the folder that cannot be read.
pub fn has_records(path: &Path) -> Result<bool, String> {
    match path.is_dir() {
        true => Ok(!records_in(path)?.is_empty()),
        false => Ok(record::is_record(path)),
    }
}

/// The records of a folder, by name; other files are passed over.
fn records_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut records = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_json = path
            .extension()
            .is_some_and(|extension| extension == "json");
        if !is_json || !path.is_file() {
            continue;
        }
        if record::is_record(&path) {
            records.push(path);
        }
    }
    records.sort();
    Ok(records)
}

/// Draws one page over several records: Signet beside the others in every case.
///
/// # Errors
/// Names the file that cannot be read or written.
pub fn table(paths: &[PathBuf], page: &Path) -> Result<(), String> {
    let mut runs = Vec::new();
    for path in paths {
        let path = of_run(path);
        let (experiment, record) = read_both(&path)?;
        runs.push((experiment, record, path.display().to_string()));
    }
    let runs: Vec<_> = runs
        .iter()
        .map(|(experiment, record, raw)| (experiment, record, raw.as_str()))
        .collect();
    write_text(page, &page::table(&runs))
}

/// Compares two records in files.
///
/// # Errors
/// Names the file that cannot be read; the records must be of the same experiment.
pub fn compare_files(a: &Path, b: &Path) -> Result<Comparison, String> {
    compare(&read(&of_run(a))?, &read(&of_run(b))?)
}

/// The record of a run that is named by its folder.
fn of_run(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.join(RECORD),
        false => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own, which goes with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("signet-bed-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn put(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn record() -> String {
        serde_json::to_string(&crate::page::sample::record()).unwrap()
    }

    #[test]
    fn a_folder_gives_a_page_for_each_of_its_records() {
        let folder = Folder::new("report");
        folder.put("b.json", &record());
        folder.put("a.json", &record());
        folder.put(
            "other.json",
            "{\"format\": \"signet-load\", \"version\": 1}",
        );
        folder.put("broken.json", "{");
        folder.put("notes.txt", "x");
        let pages = report(&folder.0).unwrap();
        let names: Vec<String> = pages.iter().map(|page| name_of(page)).collect();
        assert_eq!(names, ["a.html", "b.html"]);
        assert!(
            fs::read_to_string(&pages[1])
                .unwrap()
                .contains("signet bed report b.json")
        );
    }

    #[test]
    fn what_is_no_record_is_refused_by_name() {
        let folder = Folder::new("refuse");
        let refused = |text: &str| read(&folder.put("x.json", text)).unwrap_err();
        assert!(refused("{").contains("x.json: no record"));
        assert!(refused("{}").contains("give a file that `signet bed run`"));
        let later = record().replacen("\"version\":1", "\"version\":2", 1);
        assert!(refused(&later).contains("version 2"));
        assert!(
            read(&folder.0.join("absent.json"))
                .unwrap_err()
                .contains("absent.json")
        );
        fs::remove_file(folder.0.join("x.json")).unwrap();
        assert!(
            report(&folder.0)
                .unwrap_err()
                .contains("no record of an experiment in it")
        );
        let wrong = crate::record::Record {
            experiment_toml: "versoin = 1".to_owned(),
            ..crate::page::sample::record()
        };
        let wrong = folder.put("wrong.json", &serde_json::to_string(&wrong).unwrap());
        assert!(report(&wrong).unwrap_err().contains("wrong.json"));
    }

    #[test]
    fn records_are_set_side_by_side_and_compared() {
        let folder = Folder::new("table");
        let (a, b) = (
            folder.put("a.json", &record()),
            folder.put("b.json", &record()),
        );
        let page = folder.0.join("table.html");
        table(&[a.clone(), b.clone()], &page).unwrap();
        let page = fs::read_to_string(&page).unwrap();
        assert!(page.contains("a.json: sample form") && page.contains("b.json: sample form"));
        assert!(compare_files(&a, &b).unwrap().holds());
    }
}

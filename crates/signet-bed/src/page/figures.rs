//! How each figure of a record is told to readers.

use signet_page::number;

use crate::experiment::{in_words, resolution};
use crate::record::figure;

/// A figure for readers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kind {
    /// Its name in [`figure`].
    pub(crate) name: &'static str,
    /// What it is called.
    pub(crate) title: &'static str,
    /// Its unit for readers.
    pub(crate) unit: &'static str,
    /// What it is multiplied by to be in that unit.
    pub(crate) scale: f64,
    /// Differences smaller than this, in the unit of the record, say nothing, however small
    /// the figure is.
    pub(crate) resolution: f64,
}

/// How a figure is called and counted; `None` for a name that no record has.
pub(crate) fn kind_of(name: &str) -> Option<Kind> {
    let name = figure::ALL.into_iter().find(|known| *known == name)?;
    let words = in_words(name);
    Some(Kind {
        name,
        title: words.what,
        unit: unit(words.unit),
        scale: words.scale,
        resolution: resolution(name),
    })
}

/// A unit as it is printed.
pub(crate) fn unit(unit: &str) -> &str {
    match unit {
        "us" => "µs",
        other => other,
    }
}

/// Title and unit, where the title does not say what it counts.
pub(crate) fn heading(title: &str, unit: &str) -> String {
    if title.contains(unit) {
        title.to_owned()
    } else {
        format!("{title}, {unit}")
    }
}

impl Kind {
    /// Title and unit: "CPU of the server for each, µs".
    pub(crate) fn heading(&self) -> String {
        heading(self.title, self.unit)
    }

    /// A figure in its unit, without it.
    pub(crate) fn bare(&self, value: f64) -> String {
        number::figure(value * self.scale)
    }

    /// A figure with its unit.
    pub(crate) fn told(&self, value: f64) -> String {
        let bare = self.bare(value);
        match self.unit {
            "" => bare,
            unit @ ("/s" | "%") => format!("{bare}{unit}"),
            unit => format!("{bare} {unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_name_for_readers() {
        for name in figure::ALL {
            let kind = kind_of(name).unwrap();
            assert!(kind.scale > 0.0 && kind.resolution > 0.0, "{name}");
        }
        assert_eq!(kind_of("other"), None);
        assert_eq!(kind_of(figure::FAILED_SHARE).unwrap().told(0.04), "4.00%");
        assert_eq!(
            kind_of(figure::SERVER_MEMORY_BYTES)
                .unwrap()
                .told(3_145_728.0),
            "3.00 MiB"
        );
    }
}

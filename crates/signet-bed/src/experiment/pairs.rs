//! Which cases a finding holds against which.

use std::collections::BTreeMap;

use super::at::At;
use super::case::Load;
use super::finding::Finding;
use super::pick::Pick;

/// A case at one of its loads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    pub(super) labels: &'a BTreeMap<String, String>,
    pub(super) load: &'a Load,
    /// Where it stands in the list that it was made from.
    pub(super) nth: usize,
}

/// What is held against what, by places in that list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sides {
    pub(super) of: usize,
    pub(super) of_less: Option<usize>,
    pub(super) than: usize,
    pub(super) than_less: Option<usize>,
}

impl Finding {
    /// The load below the line.
    pub(super) fn at_below(&self) -> At {
        self.than_at.unwrap_or(self.at)
    }

    /// What it holds against what; for each that has no partner, why.
    pub(super) fn pairs(&self, items: &[Item<'_>]) -> Vec<Result<Sides, String>> {
        self.above(items).map(|of| self.sides(of, items)).collect()
    }

    /// What is above the line.
    pub(super) fn above<'i, 'a: 'i>(
        &self,
        items: &'i [Item<'a>],
    ) -> impl Iterator<Item = &'i Item<'a>> {
        items
            .iter()
            .filter(|item| self.of.fits(item.labels) && self.at.fits(item.load))
    }

    /// What is below it.
    pub(super) fn below<'i, 'a: 'i>(
        &self,
        items: &'i [Item<'a>],
    ) -> impl Iterator<Item = &'i Item<'a>> {
        items
            .iter()
            .filter(|item| self.than.fits(item.labels) && self.at_below().fits(item.load))
    }

    fn sides(&self, of: &Item<'_>, items: &[Item<'_>]) -> Result<Sides, String> {
        let less = |from: &Item<'_>, from_pick: &Pick, less: &Option<Pick>, at: At| match less {
            Some(pick) => partner((from, from_pick), pick, at, true, items).map(|it| Some(it.nth)),
            None => Ok(None),
        };
        let below = (&self.than, self.at_below());
        let is_same_load = self.than_at.is_none();
        let than = partner((of, &self.of), below.0, below.1, is_same_load, items)?;
        Ok(Sides {
            of: of.nth,
            of_less: less(of, &self.of, &self.of_less, self.at)?,
            than: than.nth,
            than_less: less(&than, &self.than, &self.than_less, below.1)?,
        })
    }
}

/// The one that stands for `from` among those of a pick: it agrees on every axis that neither
/// pick names. That there is only one is not enough: in a record, others may be missing.
fn partner<'a>(
    (from, from_pick): (&Item<'_>, &Pick),
    pick: &Pick,
    at: At,
    is_same_load: bool,
    items: &[Item<'a>],
) -> Result<Item<'a>, String> {
    let agrees = |item: &&Item<'a>| {
        from.labels.iter().all(|(axis, place)| {
            from_pick.names(axis) || pick.names(axis) || item.labels.get(axis) == Some(place)
        })
    };
    let near: Vec<&Item<'a>> = items
        .iter()
        .filter(|item| pick.fits(item.labels) && at.fits(item.load))
        .filter(|item| !is_same_load || from.load.is_like(item.load))
        .filter(agrees)
        .collect();
    match near[..] {
        [one] => Ok(*one),
        [] => Err(format!(
            "no case of `{pick}` to hold {} against",
            told(from)
        )),
        _ => Err(format!(
            "{} cases of `{pick}` to hold {} against",
            near.len(),
            told(from)
        )),
    }
}

fn told(item: &Item<'_>) -> String {
    let labels: Vec<String> = item
        .labels
        .iter()
        .map(|(axis, place)| format!("{axis} {place}"))
        .collect();
    format!(
        "`{}` ({})",
        labels.join(", "),
        crate::names::load(item.load)
    )
}

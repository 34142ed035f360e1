//! What was asked of the operator's hook, and what it said.

use super::Page;
use crate::hook::Shown;

/// What the queue to it has done, and what is remembered; nothing without a hook.
pub(super) fn hook(page: &mut Page, shown: Option<&Shown>) {
    if let Some(shown) = shown {
        page.counted([shown.figures()].iter());
        page.counted([shown.cache_figures()].iter());
    }
}

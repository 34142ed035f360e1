//! The memory of a server: all of its processes, shared pages in parts (Pss).

use std::fs;

/// Bytes of the process and its descendants; 0 where there is none to look at.
pub(crate) fn bytes_of(root: u32) -> u64 {
    family(root).into_iter().map(pss_bytes).sum()
}

/// The process and its descendants.
pub(crate) fn family(root: u32) -> Vec<u32> {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The command's name may hold anything, so count from its last bracket.
        let after = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let parent = after.split(' ').nth(1).and_then(|p| p.parse().ok());
        parents.extend(parent.map(|parent| (parent, id)));
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&id) = found.get(next) {
        let children = parents.iter().filter(|(parent, _)| *parent == id);
        found.extend(children.map(|(_, child)| *child));
        next += 1;
    }
    found
}

fn pss_bytes(id: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default();
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

//! The table of the differences in `docs/differences.md`: how many vectors each has, and the totals.

use std::{collections::BTreeMap, fs, path::Path};

use crate::vectors::Problem;

/// What the document says.
pub struct Table {
    /// Vectors per difference.
    pub counts: BTreeMap<u8, usize>,
    /// The totals, as the test prints them.
    pub totals: String,
}

impl Table {
    /// Reads the rows of the table whose first cell is a number and whose last one is a count, and the line of the
    /// totals.
    pub fn read(path: &Path) -> Result<Table, Problem> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            let cells: Vec<&str> = line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
            let (Some(first), Some(last)) = (cells.first(), cells.last()) else { continue };
            let (Ok(number), Ok(count)) = (first.parse(), last.parse()) else { continue };
            if counts.insert(number, count).is_some() {
                return Err(format!("{}: difference {number} is there twice", path.display()));
            }
        }
        let totals = text
            .lines()
            .map(|line| line.trim_matches([' ', '*', '`']))
            .find(|line| line.contains(" vectors: "));
        let totals = totals.ok_or_else(|| format!("{}: no line of totals", path.display()))?;
        Ok(Table { counts, totals: totals.into() })
    }
}

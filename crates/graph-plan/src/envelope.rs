use std::cmp::Ordering;

/// The lowest of a growing set of lines, asked at points that are known beforehand.
///
/// A Li Chao tree: each node of a binary tree over the points keeps the line that is lowest at its middle; a
/// line that loses there can only be lowest on one side, so it moves down that side. Lines are compared by
/// their values, never by where they cross, so whole numbers below 2^53 are compared exactly.
pub(crate) struct Envelope {
    /// Distinct points, rising.
    points: Vec<f64>,
    /// Which point each caller's index means.
    rank: Vec<usize>,
    tree: Vec<Option<Line>>,
}

#[derive(Clone, Copy)]
struct Line {
    slope: f64,
    height: f64,
    name: u32,
}

impl Envelope {
    pub(crate) fn new(asked_at: &[f64]) -> Self {
        let mut points = asked_at.to_vec();
        points.sort_by(f64::total_cmp);
        points.dedup();
        let rank = asked_at.iter().map(|value| points.partition_point(|point| point < value)).collect();
        let tree = vec![None; 2 * points.len().next_power_of_two()];
        Self { points, rank, tree }
    }

    pub(crate) fn clear(&mut self) {
        self.tree.fill(None);
    }

    /// Adds `height + slope * x`. Of two lines that are equal at a point, the one added first stays.
    pub(crate) fn add(&mut self, name: u32, slope: f64, height: f64) {
        let mut line = Line { slope, height, name };
        let (mut node, mut low, mut high) = (1, 0, self.points.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let Some(kept) = &mut self.tree[node] else {
                self.tree[node] = Some(line);
                return;
            };
            if line.at(self.points[middle]) < kept.at(self.points[middle]) {
                std::mem::swap(kept, &mut line);
            }
            if line.at(self.points[low]) < kept.at(self.points[low]) {
                (node, high) = (2 * node, middle);
            } else if line.at(self.points[high - 1]) < kept.at(self.points[high - 1]) {
                (node, low) = (2 * node + 1, middle + 1);
            } else {
                return;
            }
        }
    }

    /// The name of the line that is lowest at the point of caller's index `asked`, if there is a line.
    pub(crate) fn lowest(&self, asked: usize) -> Option<u32> {
        let rank = self.rank[asked];
        let point = self.points[rank];
        let (mut node, mut low, mut high) = (1, 0, self.points.len());
        let mut best: Option<(f64, u32)> = None;
        while low < high {
            let Some(line) = &self.tree[node] else { break };
            let value = line.at(point);
            // Of equals the smaller name, so that the answer does not depend on how the tree grew.
            if best.is_none_or(|(least, name)| value < least || (value == least && line.name < name)) {
                best = Some((value, line.name));
            }
            let middle = low + (high - low) / 2;
            match rank.cmp(&middle) {
                Ordering::Less => (node, high) = (2 * node, middle),
                Ordering::Equal => break,
                Ordering::Greater => (node, low) = (2 * node + 1, middle + 1),
            }
        }
        best.map(|(_, name)| name)
    }
}

impl Line {
    fn at(&self, x: f64) -> f64 {
        self.height + self.slope * x
    }
}

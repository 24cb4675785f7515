//! How long the planner takes: `cargo bench -p graph-plan`.

use std::time::Instant;

use graph_plan::{Constraints, Histogram, MAX_SIZE, PaddedRows, PlanError, SizeCurve};

fn main() -> Result<(), PlanError> {
    for (sizes, count) in [(256, 32), (2048, 64), (8192, 64), (MAX_SIZE, 16)] {
        let mut seen = Histogram::new();
        for size in 1..=sizes {
            seen.add(size, f64::from(1 + size.wrapping_mul(2_654_435_761) % 1000))?;
        }
        let mut times = [0; 5].map(|_| {
            let start = Instant::now();
            let curve = SizeCurve::fit(&seen, &PaddedRows::default(), &Constraints::new(), count);
            curve.map(|curve| (start.elapsed(), curve.waste(count)))
        });
        times.sort_by_key(|time| time.as_ref().map(|(elapsed, _)| *elapsed).ok());
        if let Ok((elapsed, waste)) = &times[2] {
            println!(
                "{sizes:>7} sizes, {count:>2} of them: {elapsed:>10.2?} (median of 5), {waste} rows padded"
            );
        }
    }
    Ok(())
}

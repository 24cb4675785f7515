//! Which sizes a list may hold.

use graph_plan::{
    Constraints, Histogram, LoadPrior, MAX_SIZE, MeasuredTime, PaddedRows, PlanError, best_sizes,
};

fn permitted(rules: &Constraints) -> Vec<u32> {
    (0..=24).filter(|&size| rules.permits(size)).collect()
}

#[test]
fn each_rule_permits_what_it_says() {
    let new = Constraints::new;
    assert_eq!(permitted(&new()), (1..=24).collect::<Vec<_>>());
    assert_eq!(permitted(&new().covering(5)), [1, 2, 3, 4, 5]);
    assert_eq!(permitted(&new().multiples_of(5)), [5, 10, 15, 20]);
    assert_eq!(permitted(&new().aligned_to(8)), [1, 2, 4, 8, 16, 24]);
    assert_eq!(permitted(&new().aligned_to(8).forcing([3]).covering(21)), [1, 2, 3, 4, 8, 16, 21]);
    assert_eq!(permitted(&new().aligned_to(4).multiples_of(6)), [12, 24]);
}

#[test]
fn the_largest_size_covers_the_steps_or_is_the_maximum() {
    let seen = Histogram::from_sizes([3, 9]).unwrap();
    let top = |rules: Constraints| rules.top(&seen);
    assert!(matches!(top(Constraints::new()), Ok(9)));
    assert!(matches!(top(Constraints::new().aligned_to(8)), Ok(16)));
    assert!(matches!(top(Constraints::new().multiples_of(5)), Ok(10)));
    assert!(matches!(top(Constraints::new().forcing([12])), Ok(12)));
    assert!(matches!(top(Constraints::new().covering(4)), Ok(4)));
    assert!(matches!(Constraints::new().covering(4).top(&Histogram::new()), Ok(4)));
    assert!(matches!(Constraints::new().top(&Histogram::new()), Err(PlanError::NothingToPlan)));
}

#[test]
fn rules_that_contradict_each_other_are_errors_with_their_numbers() {
    let seen = Histogram::from_sizes([3, 9]).unwrap();
    let plan =
        |rules: Constraints, count| best_sizes(&seen, &PaddedRows::default(), &rules, count).unwrap_err();
    let new = Constraints::new;
    assert!(matches!(plan(new().aligned_to(0), 4), PlanError::Zero { what: "the alignment" }));
    assert!(matches!(plan(new().multiples_of(0), 4), PlanError::Zero { what: "the query length" }));
    assert!(matches!(plan(new().covering(0), 4), PlanError::Zero { .. }));
    assert!(matches!(plan(new().forcing([20]).covering(16), 4), PlanError::AboveMax { size: 20, max: 16 }));
    let odd = plan(new().multiples_of(2).covering(9), 4);
    assert!(matches!(odd, PlanError::NotAMultiple { size: 9, multiple_of: 2 }));
    let many = plan(new().forcing([1, 2, 4]).covering(16), 3);
    assert!(matches!(many, PlanError::TooFewSizes { asked: 3, needed: 4 }));
    let far = plan(new().covering(MAX_SIZE + 1), 4);
    assert!(matches!(far, PlanError::SizeTooLarge { limit: MAX_SIZE, .. }));
    // Nothing up to the limit is a multiple of so much.
    let nothing = plan(new().multiples_of(MAX_SIZE + 1), 4);
    assert!(matches!(nothing, PlanError::SizeTooLarge { size: 9, limit: MAX_SIZE }));
}

#[test]
fn numbers_out_of_range_are_refused() {
    for value in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(PaddedRows::weighing(value), Err(PlanError::BadNumber { .. })));
        assert!(matches!(MeasuredTime::new([(1, value)]), Err(PlanError::BadNumber { .. })));
        assert!(matches!(Histogram::new().add(1, value), Err(PlanError::BadNumber { .. })));
        assert!(matches!(LoadPrior::new(value, 1.0), Err(PlanError::BadNumber { .. })));
        assert!(matches!(LoadPrior::new(0.5, value), Err(PlanError::BadNumber { .. })));
    }
    assert!(matches!(LoadPrior::new(1.1, 1.0), Err(PlanError::BadNumber { .. })));
    assert!(matches!(LoadPrior::new(0.5, 0.9), Err(PlanError::BadNumber { .. })));
    assert!(matches!(MeasuredTime::new([]), Err(PlanError::Zero { .. })));
    assert!(matches!(Histogram::from_sizes([0]), Err(PlanError::Zero { .. })));
}

#[test]
fn a_measured_cost_changes_the_list() {
    // By rows, 16 and 64 are the best two. But here every bucket up to 48 costs the same, so 48 serves all but the
    // largest steps for the price of 16.
    let seen = Histogram::from_sizes([16; 20].into_iter().chain([48; 4]).chain([64])).unwrap();
    let rules = Constraints::new();
    assert_eq!(best_sizes(&seen, &PaddedRows::default(), &rules, 2).unwrap(), [16, 64]);
    let time = MeasuredTime::new([(16, 100.0), (48, 100.0), (64, 180.0)]).unwrap();
    assert_eq!(best_sizes(&seen, &time, &rules, 2).unwrap(), [48, 64]);
}

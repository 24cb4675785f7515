//! Each kernel from its own source, and from copies of it with one change.

use llama_plugin::cuda::{DECODER, PAGED, SAMPLE};
use plugins_on_cuda::{CASES, ELEMENTS, Rig, session};

#[test]
fn each_kernel_agrees_with_the_kernel_on_slices() {
    let Some(session) = session("each_kernel_agrees_with_the_kernel_on_slices") else { return };
    for case in CASES.iter().copied().flatten() {
        for reversed in [false, true] {
            session.set_reversed_threads(reversed);
            let agreed = (case.check)(&Rig::new(case.source, None));
            assert_eq!(agreed, Ok(()), "{} of {}", case.kernel, case.source.name);
        }
    }
    assert!(session.live().is_zero(), "{:?}", session.live());
    assert!(session.faults().is_empty(), "{:?}", session.faults());
}

#[test]
fn one_changed_constant_of_any_kernel_is_noticed() {
    let Some(_session) = session("one_changed_constant_of_any_kernel_is_noticed") else { return };
    for case in CASES.iter().copied().flatten() {
        assert!(!case.edits.is_empty(), "{} has no edit", case.kernel);
        for edit in case.edits {
            let noticed = (case.check)(&Rig::new(case.source, Some(*edit)));
            assert!(noticed.is_err(), "{} of {}: {edit:?} changed nothing", case.kernel, case.source.name);
        }
    }
}

#[test]
fn every_kernel_has_a_case() {
    let shared = [&model_support::cuda::LINEAR, &model_support::cuda::ROWWISE];
    let own = [&digits_plugin::DIGITS, &DECODER, &PAGED, &SAMPLE, &ELEMENTS, &graph_cuda::PAD_SOURCE];
    for source in shared.into_iter().chain(own) {
        let of = CASES.iter().copied().flatten().filter(|case| std::ptr::eq(case.source, source));
        let tested: Vec<_> = of.map(|case| case.kernel).collect();
        let declared: Vec<_> = source.kernels.iter().map(|kernel| kernel.name()).collect();
        assert_eq!(tested, declared, "{}", source.name);
    }
}

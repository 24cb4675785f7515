//! The checks of a call's inputs: one place for replay and eager execution.

use crate::{Backend, Dims, Error, ErrorKind, Result, Source, executor::IoPlan};

/// Count, element, rank and size of every input, before a byte is written.
#[inline]
pub(crate) fn check_sources<B: Backend>(
    owner: &str,
    plans: &[IoPlan],
    real: Dims,
    rows: &[usize],
    sources: &[Source<'_, B>],
) -> Result<()> {
    for (i, plan) in plans.iter().enumerate() {
        let Some(source) = sources.get(i) else { return Err(missing(owner, plan)) };
        if source.elem != plan.elem || source.rank != plan.rank {
            return Err(wrong_type(owner, plan, source));
        }
        if !plan.fits(rows[i], &source.dims) {
            return Err(wrong_size(owner, plan, rows[i], real, source));
        }
    }
    Ok(())
}

#[cold]
fn missing(owner: &str, plan: &IoPlan) -> Error {
    let (elem, dims) = (plan.elem.name(), plan.declared);
    ErrorKind::MissingInput { owner: owner.into(), input: plan.name, elem, dims }.into()
}

#[cold]
fn wrong_type<B: Backend>(owner: &str, plan: &IoPlan, source: &Source<'_, B>) -> Error {
    ErrorKind::WrongType {
        owner: owner.into(),
        input: plan.name.into(),
        want_elem: plan.elem.name(),
        want_rank: plan.rank,
        got_elem: source.elem.name(),
        got_rank: source.rank,
    }
    .into()
}

#[cold]
fn wrong_size<B: Backend>(
    owner: &str,
    plan: &IoPlan,
    rows: usize,
    real: Dims,
    source: &Source<'_, B>,
) -> Error {
    ErrorKind::WrongSize {
        owner: owner.into(),
        input: plan.name,
        elem: plan.elem.name(),
        dims: plan.declared,
        got: source.dims().to_vec(),
        want: plan.dims_at(rows)[..plan.rank].to_vec(),
        bs: real.bs,
        tokens: real.tokens,
    }
    .into()
}

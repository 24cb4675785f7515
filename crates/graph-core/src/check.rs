//! The checks of a call's inputs: one place for replay and eager execution.

use crate::{Backend, Dims, Error, ErrorKind, Result, Source, executor::IoPlan};

/// Count, element, rank and size of every input, before a byte is written. `rows` and `sources` may come from code that
/// was written by hand: one too many of either would be read as something else.
#[inline]
pub(crate) fn check_sources<B: Backend>(
    owner: &str,
    plans: &[IoPlan],
    real: Dims,
    rows: &[usize],
    sources: &[Source<'_, B>],
) -> Result<()> {
    if rows.len() != plans.len() || sources.len() > plans.len() {
        return Err(wrong_count(owner, plans, rows, sources));
    }
    for (i, plan) in plans.iter().enumerate() {
        let Some(source) = sources.get(i) else { return Err(missing(owner, plan)) };
        if source.elem != plan.elem || source.rank != plan.rank {
            return Err(wrong_type(owner, plan, source));
        }
        if !plan.fits(rows[i], &source.dims) {
            return Err(wrong_size(owner, plan, rows[i], real, source));
        }
        source.check_data()?;
    }
    Ok(())
}

#[cold]
fn wrong_count<B: Backend>(
    owner: &str,
    plans: &[IoPlan],
    rows: &[usize],
    sources: &[Source<'_, B>],
) -> Error {
    let (what, got) = match sources.len() > plans.len() {
        true => ("inputs", sources.len()),
        false => ("input lengths", rows.len()),
    };
    ErrorKind::WrongCount { owner: owner.into(), what, got, want: plans.len() }.into()
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

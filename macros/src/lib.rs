//! `#[derive(PiecewiseRegion)]`: see the macro's own page. graph-core re-exports it.

mod attr;
mod check;
mod expand;
mod fallback;
mod mistakes;
mod names;
mod text;

use syn::{DeriveInput, parse_macro_input};

/// Makes a struct a region.
#[proc_macro_derive(PiecewiseRegion, attributes(region, input, output))]
pub fn piecewise_region(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    derive(&item).into()
}

fn derive(item: &DeriveInput) -> proc_macro2::TokenStream {
    let mut mistakes = mistakes::Mistakes::default();
    let attrs = attr::Attrs::parse(&item.attrs, &mut mistakes);
    let region = check::check(item, attrs, &mut mistakes);
    match mistakes.into_errors() {
        None => expand::expand(item, &region),
        Some(mistakes) => fallback::fallback(item, &region, &mistakes),
    }
}

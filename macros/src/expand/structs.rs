//! The typed structs, and the arguments of a call.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{GenericParam, WherePredicate, ext::IdentExt, parse_quote};

use super::{Expansion, count, rank};
use crate::{attr::PadAttr, check::Io, text::text};

impl Expansion<'_> {
    pub(crate) fn structs(&self) -> TokenStream {
        let Expansion { item, region, names, g, b, a, params, .. } = self;
        let (vis, ty) = (&item.vis, item.ident.unraw());
        let (_, _, where_clause) = item.generics.split_for_impl();
        let types = self.type_params();
        let (names_of, bounds) = (types.iter().map(|t| &t.ident), types.iter().map(|t| &t.bounds));
        let generics = quote!(<#a #(, #names_of: #bounds)*>);
        let where_clause = where_clause.filter(|_| !types.is_empty());
        // Who does not read an input need not hear of it; the struct is as visible as the author's, and callers make
        // the arguments by a literal.
        let allowed = item.attrs.iter().filter(|a| a.path().is_ident("allow"));
        let quiet = quote!(#[allow(dead_code, unreachable_pub, clippy::exhaustive_structs, clippy::partial_pub_fields)] #(#allowed)*);
        let view = |name: &Ident, ios: &[Io], kind: &str, doc: String| {
            let kind = Ident::new(kind, Span::call_site());
            let fields = ios.iter().map(|io| {
                let (field, elem, rank) = (&io.name, self.elem(&io.elem), rank(io));
                let doc = io_doc(io, kind == "In");
                quote!(#[doc = #doc] #vis #field: #g::#kind<#a, #b, #elem, #rank>,)
            });
            let none = self.leaves_unused(ios).then(|| {
                let elem = region.elements.as_ref().map(|e| &e.param.ident);
                quote!(__none: ::core::marker::PhantomData<(&#a (), fn() -> (#b, #elem))>,)
            });
            quote! {
                #[doc = #doc]
                #quiet
                #vis struct #name #generics #where_clause { #(#fields)* #none }
            }
        };
        let inputs = view(
            &names.inputs,
            &region.inputs,
            "In",
            format!("What the forward of `{ty}` reads: its inputs."),
        );
        let outputs = view(
            &names.outputs,
            &region.outputs,
            "Out",
            format!("What the forward of `{ty}` writes: its outputs."),
        );
        let results = view(
            &names.results,
            &region.outputs,
            "OutTensor",
            format!("What a call of `{ty}` returns: its outputs."),
        );
        let args = &names.args;
        let doc = format!("What a call of `{ty}` takes: one argument per input.");
        let fields = region.inputs.iter().zip(params).map(|(io, param)| {
            let (field, doc) = (&io.name, io_doc(io, true));
            quote!(#[doc = #doc] #vis #field: #param,)
        });
        quote! {
            #[doc = #doc]
            #quiet
            #vis struct #args<#(#params),*> { #(#fields)* }
            #inputs
            #outputs
            #results
        }
    }

    /// Whether the inputs or outputs leave a parameter of their struct unused, which Rust does not allow.
    pub(super) fn leaves_unused(&self, ios: &[Io]) -> bool {
        let element = self.region.elements.as_ref().map(|e| &e.param.ident);
        ios.is_empty() || element.is_some_and(|param| ios.iter().all(|io| io.elem.0 != *param))
    }

    /// `impl Args`. `this` is the region's type.
    pub(crate) fn args(&self, this: &impl ToTokens) -> TokenStream {
        let Expansion { item, region, names, g, b, params, .. } = self;
        let args = &names.args;
        let bounds = region.inputs.iter().zip(params).map(|(io, param)| {
            let (elem, rank) = (self.elem(&io.elem), rank(io));
            match io.host {
                true => quote!(#param: #g::HostInput<#elem, #rank>),
                false => quote!(#param: #g::DeviceInput<#b, #elem, #rank>),
            }
        });
        let mut generics = item.generics.clone();
        generics.params.extend(params.iter().map(|p| -> GenericParam { parse_quote!(#p) }));
        let predicates = bounds.map(|b| -> WherePredicate { parse_quote!(#b) });
        generics.make_where_clause().predicates.extend(predicates);
        let (impl_generics, _, where_clause) = generics.split_for_impl();
        let sources = region.inputs.iter().map(|io| {
            let (field, elem, rank) = (&io.name, self.elem(&io.elem), rank(io));
            let side = Ident::new(if io.host { "host" } else { "device" }, Span::call_site());
            quote!(#g::Source::#side::<#elem, #rank>(&self.#field))
        });
        let n = count(&region.inputs);
        quote! {
            #[automatically_derived]
            impl #impl_generics #g::Args<#this> for #args<#(#params),*> #where_clause {
                type Sources<'a> = [#g::Source<'a, #b>; #n] where Self: 'a;
                #[inline]
                fn sources(&self) -> [#g::Source<'_, #b>; #n] {
                    [#(#sources),*]
                }
            }
        }
    }
}

/// `` `f32 [tokens, self.hidden]`, pad zero, wire `h[self.layer]`. ``
fn io_doc(io: &Io, input: bool) -> String {
    let pad = match &io.pad {
        _ if !input => String::new(),
        PadAttr::Zero => ", pad zero".into(),
        PadAttr::RepeatLast => ", pad repeat_last".into(),
        PadAttr::Value(v) => format!(", pad value({})", text(v)),
    };
    let side = if io.host { ", host" } else { "" };
    let wire = io.wire.as_ref().map(|(name, index)| format!(", wire `{name}[{}]`", text(index)));
    format!("`{} {}`{side}{pad}{}.", io.elem.0, io.text, wire.unwrap_or_default())
}

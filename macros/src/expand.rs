//! The generated code: `structs` has what the author and the caller use, `spec` the trait's implementation.

mod spec;
mod structs;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{DeriveInput, Expr, Lifetime, Path, ext::IdentExt, spanned::Spanned};

use crate::{
    attr::PadAttr,
    check::{Elem, Io, Kind, On, Region, plain},
    names::{Bound, unused},
};

/// The names of the generated structs.
pub(crate) struct Generated {
    pub(crate) args: Ident,
    pub(crate) inputs: Ident,
    pub(crate) outputs: Ident,
    pub(crate) results: Ident,
}

impl Generated {
    pub(crate) fn of(ty: &Ident) -> Generated {
        let name = |end| format_ident!("{ty}{end}", span = ty.span());
        Generated {
            args: name("Args"),
            inputs: name("Inputs"),
            outputs: name("Outputs"),
            results: name("Results"),
        }
    }
}

/// The path to graph-core.
pub(crate) fn core_path(krate: Option<&Path>) -> TokenStream {
    krate.map_or_else(|| quote!(::graph_core), ToTokens::to_token_stream)
}

pub(crate) fn expand(item: &DeriveInput, region: &Region) -> TokenStream {
    let Some(x) = Expansion::new(item, region) else { return TokenStream::new() };
    let (_, ty_generics, _) = item.generics.split_for_impl();
    let ty = &item.ident;
    let args = x.args(&quote!(#ty #ty_generics));
    let (structs, schema, spec, entry) = (x.structs(), x.schema(), x.spec(), x.entry());
    quote! {
        #structs
        const _: () = {
            #schema
            #spec
            #args
            #entry
        };
    }
}

pub(crate) struct Expansion<'e> {
    pub(crate) item: &'e DeriveInput,
    pub(crate) region: &'e Region,
    on: &'e On,
    pub(crate) names: Generated,
    /// Path to graph-core.
    pub(crate) g: TokenStream,
    /// The backend.
    pub(crate) b: TokenStream,
    /// `'a`, unless the author's bounds use it.
    a: Lifetime,
    /// One type parameter per input.
    params: Vec<Ident>,
    bound: Bound,
}

impl<'e> Expansion<'e> {
    /// `None` without a backend.
    pub(crate) fn new(item: &'e DeriveInput, region: &'e Region) -> Option<Self> {
        let on = region.on.as_ref()?;
        let b = match on {
            On::Crate(t) | On::These(t, _) => t.ident.to_token_stream(),
            On::One(ty) => ty.to_token_stream(),
        };
        let generics = {
            let (params, where_clause) = (&item.generics.params, &item.generics.where_clause);
            quote!(#params #where_clause #b)
        };
        let param = |i| Ident::new(&unused(&format!("I{i}"), &generics), Span::call_site());
        let ios = || region.inputs.iter().chain(&region.outputs);
        let sizes = match &region.kind {
            Kind::Packed(totals) => totals.as_slice(),
            Kind::Batched(seq_len) => std::slice::from_ref(seq_len),
        };
        let exprs = ios().flat_map(|io| io.dims.iter().chain(io.wire.as_ref().map(|(_, index)| index)));
        let exprs = exprs.chain(sizes).chain(region.batch_sizes.iter().flatten());
        Some(Expansion {
            item,
            region,
            on,
            names: Generated::of(&item.ident),
            g: core_path(region.krate.as_ref()),
            b,
            a: Lifetime::new(&format!("'{}", unused("a", &generics)), Span::call_site()),
            params: (0..region.inputs.len()).map(param).collect(),
            bound: Bound::by(exprs),
        })
    }

    /// `f32`, or graph-core's `f16`.
    fn elem(&self, Elem(elem): &Elem) -> TokenStream {
        let g = &self.g;
        match elem.to_string().as_str() {
            "f16" | "bf16" => quote!(#g::#elem),
            _ => quote!(::core::primitive::#elem),
        }
    }

    /// `<'a, B>` for a use of a generated struct.
    pub(crate) fn with(&self, lifetime: &Lifetime) -> TokenStream {
        match self.on {
            On::One(_) => quote!(<#lifetime>),
            On::Crate(t) | On::These(t, _) => {
                let b = &t.ident;
                quote!(<#lifetime, #b>)
            }
        }
    }

    fn schema(&self) -> TokenStream {
        let Expansion { region, g, .. } = self;
        let (node, name, buckets) = (&region.node, &region.name, &region.buckets);
        let one = |io: &Io| {
            let (name, elem, rank, text) =
                (io.name.unraw().to_string(), self.elem(&io.elem), rank(io), &io.text);
            let side = Ident::new(if io.host { "host" } else { "device" }, Span::call_site());
            let axis = Literal::usize_unsuffixed(io.axis);
            let pad = match &io.pad {
                PadAttr::Zero => quote!(Zero),
                PadAttr::RepeatLast => quote!(RepeatLast),
                PadAttr::Value(value) => {
                    let Elem(elem) = &io.elem;
                    let value = match elem.to_string().as_str() {
                        "f16" | "bf16" if matches!(plain(value), Expr::Lit(_) | Expr::Unary(_)) => {
                            quote!(#g::#elem::from_f32_const(#value))
                        }
                        _ => value.to_token_stream(),
                    };
                    quote!(#elem(#value))
                }
            };
            quote! {
                #g::IoSchema::#side(#name, <#elem as #g::Element>::ELEM, #rank, #text).axis(#axis).pad(#g::Pad::#pad)
            }
        };
        let (inputs, outputs) = (region.inputs.iter().map(one), region.outputs.iter().map(one));
        let per_total = (!region.names_bs).then(|| quote!(.per_total()));
        quote! {
            static __SCHEMA: #g::Schema =
                #g::Schema::new(#node, #name, #buckets, &[#(#inputs),*], &[#(#outputs),*]) #per_total;
        }
    }

    /// The registration.
    fn entry(&self) -> TokenStream {
        let Expansion { item, on, g, .. } = self;
        let ty = &item.ident;
        let list = match on {
            On::One(_) => quote!(&[#g::On::region::<#ty>()]),
            On::These(_, list) => {
                let list = list.iter().map(|b| quote_spanned!(b.span()=> #g::On::region::<#ty<#b>>()));
                quote!(&[#(#list),*])
            }
            On::Crate(_) => quote!(crate::graph_core_backends_must_be_called_at_the_crate_root!(region __Of)),
        };
        let alias = match on {
            On::Crate(t) => {
                let b = &t.ident;
                Some(quote!(type __Of<#b> = #ty<#b>;))
            }
            _ => None,
        };
        // The line of the struct, not of the derive.
        let line = quote_spanned!(ty.span()=> ::core::line!());
        let file = quote_spanned!(ty.span()=> ::core::file!());
        quote! {
            #alias
            #g::__private::inventory::submit! {
                #g::RegionEntry {
                    schema: &__SCHEMA,
                    at: #g::Location { krate: ::core::env!("CARGO_PKG_NAME"), file: #file, line: #line },
                    on: #list,
                }
            }
        }
    }
}

fn rank(io: &Io) -> Literal {
    Literal::usize_unsuffixed(io.dims.len())
}

fn count(ios: &[Io]) -> Literal {
    Literal::usize_unsuffixed(ios.len())
}

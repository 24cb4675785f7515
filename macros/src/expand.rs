//! The generated code: `structs` has what the author and the caller use, `spec` the trait's implementation.

mod spec;
mod structs;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{
    DeriveInput, Expr, GenericParam, Lifetime, LitStr, Path, TypeParam, ext::IdentExt, spanned::Spanned,
};

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
    let (structs, spec) = (x.structs(), x.spec());
    let (schemas, entries) = x.variants().map(|v| (x.schema(&v), x.entry(&v))).collect::<(Vec<_>, Vec<_>)>();
    quote! {
        #structs
        const _: () = {
            #(#schemas)*
            #spec
            #args
            #(#entries)*
        };
    }
}

/// One registered region of the struct: that of an element, or the only one.
struct Variant<'e> {
    elem: Option<&'e Elem>,
    /// Its schema, a `static`.
    schema: Ident,
    name: String,
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

    /// The first element keeps the region's name, which the others have with their own behind it.
    fn variants(&self) -> impl Iterator<Item = Variant<'e>> {
        let (name, elements) = (self.region.name.value(), self.region.elements.as_ref());
        let schema = |i: usize| format_ident!("__SCHEMA_{i}");
        let of = move |(i, elem): (usize, &'e Elem)| Variant {
            elem: Some(elem),
            schema: schema(i),
            name: if i == 0 { name.clone() } else { format!("{name}_{}", elem.0) },
        };
        let only = Variant { elem: None, schema: schema(0), name: self.region.name.value() };
        let one = elements.is_none().then_some(only);
        one.into_iter().chain(elements.into_iter().flat_map(|e| &e.list).enumerate().map(of))
    }

    /// The element of an input or output; that of the variant where it is the parameter.
    fn elem_in<'x>(&self, elem: &'x Elem, variant: &Variant<'x>) -> &'x Elem {
        let generic = self.region.elements.as_ref().is_some_and(|e| e.param.ident == elem.0);
        variant.elem.filter(|_| generic).unwrap_or(elem)
    }

    /// `f32`, graph-core's `f16`, or the parameter.
    fn elem(&self, Elem(elem): &Elem) -> TokenStream {
        let g = &self.g;
        if self.region.elements.as_ref().is_some_and(|e| e.param.ident == *elem) {
            return elem.to_token_stream();
        }
        match elem.to_string().as_str() {
            "f16" | "bf16" => quote!(#g::#elem),
            _ => quote!(::core::primitive::#elem),
        }
    }

    /// The type parameters, in the author's order: the backend and the element, each where there is one.
    pub(crate) fn type_params(&self) -> Vec<&TypeParam> {
        let backend = match self.on {
            On::One(_) => None,
            On::Crate(t) | On::These(t, _) => Some(t),
        };
        let ours = [backend, self.region.elements.as_ref().map(|e| &e.param)];
        let of = |t: &TypeParam| ours.into_iter().flatten().find(|o| o.ident == t.ident);
        self.item.generics.type_params().filter_map(of).collect()
    }

    /// `<'a, B>` for a use of a generated struct.
    pub(crate) fn with(&self, lifetime: &Lifetime) -> TokenStream {
        let params = self.type_params().into_iter().map(|t| &t.ident);
        quote!(<#lifetime #(, #params)*>)
    }

    /// The region's type on a backend, for the variant's element.
    fn this(&self, backend: &(impl ToTokens + Spanned), variant: &Variant<'_>) -> TokenStream {
        let ty = &self.item.ident;
        let elements = self.region.elements.as_ref();
        let params = self.item.generics.params.iter().filter_map(|param| match param {
            GenericParam::Type(t) => match variant.elem {
                Some(elem) if elements.is_some_and(|e| e.param.ident == t.ident) => Some(self.elem(elem)),
                _ => Some(backend.to_token_stream()),
            },
            _ => None,
        });
        quote_spanned!(backend.span()=> #ty<#(#params),*>)
    }

    fn schema(&self, variant: &Variant<'_>) -> TokenStream {
        let Expansion { region, g, .. } = self;
        let (node, buckets) = (&region.node, &region.buckets);
        let name = LitStr::new(&variant.name, region.name.span());
        let schema = &variant.schema;
        let one = |io: &Io| {
            let of = self.elem_in(&io.elem, variant);
            let (name, elem, rank, text) = (io.name.unraw().to_string(), self.elem(of), rank(io), &io.text);
            let side = Ident::new(if io.host { "host" } else { "device" }, Span::call_site());
            let axis = Literal::usize_unsuffixed(io.axis);
            let pad = match &io.pad {
                PadAttr::Zero => quote!(Zero),
                PadAttr::RepeatLast => quote!(RepeatLast),
                PadAttr::Value(value) => {
                    let Elem(elem) = of;
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
            static #schema: #g::Schema =
                #g::Schema::new(#node, #name, #buckets, &[#(#inputs),*], &[#(#outputs),*]) #per_total;
        }
    }

    /// The registration.
    fn entry(&self, variant: &Variant<'_>) -> TokenStream {
        let Expansion { item, on, g, b, .. } = self;
        let (ty, schema) = (&item.ident, &variant.schema);
        let list = match on {
            On::One(_) => {
                let this = self.this(b, variant);
                quote!(&[#g::On::region::<#this>()])
            }
            On::These(_, list) => {
                let list = list.iter().map(|b| {
                    let this = self.this(b, variant);
                    quote_spanned!(b.span()=> #g::On::region::<#this>())
                });
                quote!(&[#(#list),*])
            }
            On::Crate(_) => quote!(crate::graph_core_backends_must_be_called_at_the_crate_root!(region __Of)),
        };
        let alias = match on {
            On::Crate(t) => {
                let (b, this) = (&t.ident, self.this(&t.ident, variant));
                Some(quote!(type __Of<#b> = #this;))
            }
            _ => None,
        };
        // The line of the struct, not of the derive.
        let line = quote_spanned!(ty.span()=> ::core::line!());
        let file = quote_spanned!(ty.span()=> ::core::file!());
        quote! {
            const _: () = {
                #alias
                #g::__private::inventory::submit! {
                    #g::RegionEntry {
                        schema: &#schema,
                        at: #g::Location { krate: ::core::env!("CARGO_PKG_NAME"), file: #file, line: #line },
                        on: #list,
                    }
                }
            };
        }
    }
}

fn rank(io: &Io) -> Literal {
    Literal::usize_unsuffixed(io.dims.len())
}

fn count(ios: &[Io]) -> Literal {
    Literal::usize_unsuffixed(ios.len())
}

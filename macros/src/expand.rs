//! The generated code.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{DeriveInput, Expr, Lifetime, Path, ext::IdentExt, spanned::Spanned};

use crate::{
    check::{Elem, Io, Kind, On, Pad, Region},
    names::{Bound, unused},
    text::text,
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
    let x = Expansion::new(item, region);
    let (structs, spec, args, entry) = (x.structs(), x.spec(), x.args(), x.entry());
    let schema = x.schema();
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

struct Expansion<'e> {
    item: &'e DeriveInput,
    region: &'e Region,
    names: Generated,
    /// Path to graph-core.
    g: TokenStream,
    /// The backend.
    b: TokenStream,
    /// `'a`, unless the author's bounds use it.
    a: Lifetime,
    /// One type parameter per input.
    params: Vec<Ident>,
    bound: Bound,
}

impl<'e> Expansion<'e> {
    fn new(item: &'e DeriveInput, region: &'e Region) -> Self {
        let b = match &region.on {
            On::Crate(t) | On::These(t, _) => t.ident.to_token_stream(),
            On::One(ty) => ty.to_token_stream(),
        };
        let generics = {
            let (params, where_clause) = (&item.generics.params, &item.generics.where_clause);
            quote!(#params #where_clause #b)
        };
        let param = |i| Ident::new(&unused(&format!("I{i}"), &generics), Span::call_site());
        let ios = || region.inputs.iter().chain(&region.outputs);
        let exprs = ios().flat_map(|io| io.dims.iter().chain(io.wire.as_ref().map(|(_, index)| index)));
        Expansion {
            item,
            region,
            names: Generated::of(&item.ident),
            g: core_path(region.krate.as_ref()),
            b,
            a: Lifetime::new(&format!("'{}", unused("a", &generics)), Span::call_site()),
            params: (0..region.inputs.len()).map(param).collect(),
            bound: Bound::by(exprs),
        }
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
    fn with(&self, lifetime: &Lifetime) -> TokenStream {
        match &self.region.on {
            On::One(_) => quote!(<#lifetime>),
            On::Crate(t) | On::These(t, _) => {
                let b = &t.ident;
                quote!(<#lifetime, #b>)
            }
        }
    }

    fn structs(&self) -> TokenStream {
        let Expansion { item, region, names, g, b, a, params, .. } = self;
        let (vis, ty) = (&item.vis, item.ident.unraw());
        let (_, _, where_clause) = item.generics.split_for_impl();
        let generics = match &region.on {
            On::One(_) => quote!(<#a>),
            On::Crate(t) | On::These(t, _) => {
                let (b, bounds) = (&t.ident, &t.bounds);
                quote!(<#a, #b: #bounds>)
            }
        };
        let where_clause = match region.on {
            On::One(_) => None,
            _ => where_clause,
        };
        // Who does not read an input need not hear of it; the struct is as visible as the author's.
        let quiet = quote!(#[allow(dead_code, unreachable_pub)]);
        let view = |name: &Ident, ios: &[Io], kind: &str, doc: String| {
            let kind = Ident::new(kind, Span::call_site());
            let fields = ios.iter().map(|io| {
                let (field, elem, rank) = (&io.name, self.elem(&io.elem), rank(io));
                let doc = io_doc(io);
                quote!(#[doc = #doc] #vis #field: #g::#kind<#a, #b, #elem, #rank>,)
            });
            // Parameters have to be used, also where nothing is declared.
            let none =
                ios.is_empty().then(|| quote!(__none: ::core::marker::PhantomData<(&#a (), fn() -> #b)>,));
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
            let (field, doc) = (&io.name, io_doc(io));
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

    fn schema(&self) -> TokenStream {
        let Expansion { region, g, .. } = self;
        let (node, name, buckets) = (&region.node, &region.name, &region.buckets);
        let one = |io: &Io| {
            let (name, elem, rank, text) =
                (io.name.unraw().to_string(), self.elem(&io.elem), rank(io), &io.text);
            let side = Ident::new(if io.host { "host" } else { "device" }, Span::call_site());
            let axis = Literal::usize_unsuffixed(io.axis);
            let pad = match &io.pad {
                Pad::Zero => quote!(Zero),
                Pad::RepeatLast => quote!(RepeatLast),
                Pad::Value(value) => {
                    let Elem(elem) = &io.elem;
                    let value = match elem.to_string().as_str() {
                        "f16" | "bf16" if matches!(value, Expr::Lit(_) | Expr::Unary(_)) => {
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

    fn spec(&self) -> TokenStream {
        let Expansion { item, region, names, g, b, bound, .. } = self;
        let ty = &item.ident;
        let (impl_generics, ty_generics, where_clause) = item.generics.split_for_impl();
        let Bound { this, tokens, bs } = bound;
        let lifetime = |name: &str| Lifetime::new(name, Span::call_site());
        let (with_a, with_r) = (self.with(&lifetime("'a")), self.with(&lifetime("'r")));
        let (with_any, with_static) = (self.with(&lifetime("'_")), self.with(&lifetime("'static")));
        let Generated { inputs, outputs, results, .. } = names;
        let (n_in, n_out) = (count(&region.inputs), count(&region.outputs));
        let rows = |ios: &[Io]| ios.iter().map(|io| self.size(&io.dims[io.axis])).collect::<Vec<_>>();
        let (in_rows, out_rows) = (rows(&region.inputs), rows(&region.outputs));
        let in_statics = self.statics(&region.inputs, "input", &quote!(__in));
        let out_statics = self.statics(&region.outputs, "output", &quote!(__out));
        let config = self.config();
        let fields = |ios: &'e [Io], each: &dyn Fn(usize, &Ident) -> TokenStream| {
            let fields = ios.iter().enumerate().map(|(i, io)| {
                let (field, value) = (&io.name, each(i, &io.name));
                quote!(#field: #value,)
            });
            let none = ios.is_empty().then(|| quote!(__none: ::core::marker::PhantomData,));
            quote!({ #(#fields)* #none })
        };
        let index = Literal::usize_unsuffixed;
        let in_views = fields(&region.inputs, &|i, _| {
            let i = index(i);
            quote!(#g::__private::typed(&__views[#i]))
        });
        let out_views = fields(&region.outputs, &|i, _| {
            let i = index(i);
            quote!(#g::__private::typed_mut(&__views[#i]))
        });
        let taken = fields(&region.outputs, &|i, _| {
            let i = index(i);
            quote!(#g::__private::typed_out(__take(#i)?)?)
        });
        let held = fields(&region.outputs, &|_, field| quote!(__results.#field.hold()));
        quote! {
            #[automatically_derived]
            #[allow(unused_variables)]
            impl #impl_generics #g::RegionSpec for #ty #ty_generics #where_clause {
                type Backend = #b;
                type Inputs<'a> = #inputs #with_a;
                type Outputs<'a> = #outputs #with_a;
                type Results<'r> = #results #with_r;
                type InRows = [usize; #n_in];
                type OutRows = [usize; #n_out];
                fn schema(&self) -> &'static #g::Schema {
                    &__SCHEMA
                }
                #config
                fn make_static_inputs(&#this, __shape: &#g::Shape, __statics: &mut #g::Statics) {
                    let __dims = #g::Shape::dims(__shape);
                    let (#bs, #tokens) = (__dims.bs, __dims.tokens);
                    let __in = <Self as #g::RegionSpec>::in_rows(#this, __dims);
                    let __out = <Self as #g::RegionSpec>::out_rows(#this, __dims);
                    #in_statics
                    #out_statics
                }
                #[inline]
                fn in_rows(&#this, __dims: #g::Dims) -> [usize; #n_in] {
                    let (#bs, #tokens) = (__dims.bs, __dims.tokens);
                    [#(#in_rows),*]
                }
                #[inline]
                fn out_rows(&#this, __dims: #g::Dims) -> [usize; #n_out] {
                    let (#bs, #tokens) = (__dims.bs, __dims.tokens);
                    [#(#out_rows),*]
                }
                fn inputs<'a>(&self, __views: &'a [#g::AnyView<'a, #b>]) -> #inputs #with_a {
                    #inputs #in_views
                }
                fn outputs<'a>(&self, __views: &'a [#g::AnyView<'a, #b>]) -> #outputs #with_a {
                    #outputs #out_views
                }
                fn results<'r>(
                    &self,
                    __take: &mut dyn ::core::ops::FnMut(usize) -> #g::Result<#g::RawOut<'r, #b>>,
                ) -> #g::Result<#results #with_r> {
                    ::core::result::Result::Ok(#results #taken)
                }
                fn hold(__results: #results #with_any) -> #results #with_static {
                    #results #held
                }
            }
        }
    }

    /// A size: a `usize`, or an error at the author's expression.
    fn size(&self, expr: &Expr) -> TokenStream {
        let value = self.bound.expr(expr);
        quote_spanned!(expr.span()=> { let __n: usize = #value; __n })
    }

    /// `make_static_inputs` for one side. The varying axis is taken from `in_rows`: each expression is written once.
    fn statics(&self, ios: &[Io], method: &str, rows: &TokenStream) -> TokenStream {
        let g = &self.g;
        let each = ios.iter().enumerate().map(|(i, io)| {
            let (name, i) = (io.name.unraw().to_string(), Literal::usize_unsuffixed(i));
            let dims = io.dims.iter().enumerate().map(|(axis, dim)| match axis == io.axis {
                true => quote!(#rows[#i]),
                false => self.size(dim),
            });
            match &io.wire {
                None => {
                    let method = format_ident!("{method}");
                    quote!(#g::Statics::#method(__statics, #name, [#(#dims),*]);)
                }
                Some((wire, index)) => {
                    let (method, index) = (format_ident!("wired_{method}"), self.size(index));
                    let wire = quote!(#g::Wire { name: #wire, index: #index });
                    quote!(#g::Statics::#method(__statics, #name, [#(#dims),*], #wire);)
                }
            }
        });
        quote!(#(#each)*)
    }

    fn config(&self) -> TokenStream {
        let Expansion { region, g, .. } = self;
        let exprs = match &region.kind {
            Kind::Packed(totals) => totals.iter().collect::<Vec<_>>(),
            Kind::Batched(seq_len) => vec![seq_len],
        };
        let bound = Bound::by(exprs.into_iter().chain(region.batch_sizes.iter().flatten()));
        let size = |expr: &Expr| {
            let value = bound.expr(expr);
            quote_spanned!(expr.span()=> { let __n: usize = #value; __n })
        };
        let mut config = match &region.kind {
            Kind::Packed(totals) => {
                let totals = totals.iter().map(size);
                quote!(#g::PiecewisePackedConfig::new([#(#totals),*]))
            }
            Kind::Batched(seq_len) => {
                let seq_len = size(seq_len);
                quote!(#g::PiecewiseBatchedConfig::new(#seq_len))
            }
        };
        if let Some(sizes) = &region.batch_sizes {
            let sizes = sizes.iter().map(size);
            config.extend(quote!(.capture_batch_sizes([#(#sizes),*])));
        }
        config.extend(region.compile.map(|yes| quote!(.compile(#yes))));
        config.extend(region.lease_before_step.map(|yes| quote!(.lease_before_step(#yes))));
        let this = &bound.this;
        quote! {
            fn config(&#this) -> ::std::boxed::Box<dyn #g::PiecewiseCudaGraphConfig> {
                ::std::boxed::Box::new(#config)
            }
        }
    }

    fn args(&self) -> TokenStream {
        let Expansion { item, region, names, g, b, params, .. } = self;
        let (ty, args) = (&item.ident, &names.args);
        let (_, ty_generics, where_clause) = item.generics.split_for_impl();
        let backend = match &region.on {
            On::One(_) => None,
            On::Crate(t) | On::These(t, _) => {
                let (b, bounds) = (&t.ident, &t.bounds);
                Some(quote!(#b: #bounds,))
            }
        };
        let given = where_clause.map(|w| w.predicates.iter()).into_iter().flatten();
        let bounds = region.inputs.iter().zip(params).map(|(io, param)| {
            let (elem, rank) = (self.elem(&io.elem), rank(io));
            match io.host {
                true => quote!(#param: #g::HostInput<#elem, #rank>),
                false => quote!(#param: #g::DeviceInput<#b, #elem, #rank>),
            }
        });
        let sources = region.inputs.iter().map(|io| {
            let (field, elem, rank) = (&io.name, self.elem(&io.elem), rank(io));
            let side = Ident::new(if io.host { "host" } else { "device" }, Span::call_site());
            quote!(#g::Source::#side::<#elem, #rank>(&self.#field))
        });
        let n = count(&region.inputs);
        quote! {
            #[automatically_derived]
            impl<#backend #(#params),*> #g::Args<#ty #ty_generics> for #args<#(#params),*>
            where
                #(#given,)*
                #(#bounds,)*
            {
                type Sources<'a> = [#g::Source<'a, #b>; #n] where Self: 'a;
                #[inline]
                fn sources(&self) -> [#g::Source<'_, #b>; #n] {
                    [#(#sources),*]
                }
            }
        }
    }

    fn entry(&self) -> TokenStream {
        let Expansion { item, region, g, .. } = self;
        let ty = &item.ident;
        let (alias, on) = match &region.on {
            On::One(_) => (None, quote!(&[#g::On::region::<#ty>()])),
            On::Crate(t) | On::These(t, _) => {
                let b = &t.ident;
                let on = match &region.on {
                    On::These(_, list) => quote!(&[#(#g::On::region::<#ty<#list>>()),*]),
                    _ => quote!(crate::graph_core_backends_must_be_called_at_the_crate_root!(region __Of)),
                };
                (Some(quote!(type __Of<#b> = #ty<#b>;)), on)
            }
        };
        let alias = matches!(region.on, On::Crate(_)).then_some(alias);
        // The line of the struct, not of the derive.
        let line = quote_spanned!(ty.span()=> ::core::line!());
        let file = quote_spanned!(ty.span()=> ::core::file!());
        quote! {
            #alias
            #g::__private::inventory::submit! {
                #g::RegionEntry {
                    schema: &__SCHEMA,
                    at: #g::Location { krate: ::core::env!("CARGO_PKG_NAME"), file: #file, line: #line },
                    on: #on,
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

/// `` `f32 [tokens, self.hidden]`, on the device, padded with zero ``.
fn io_doc(io: &Io) -> String {
    let side = if io.host { ", host" } else { "" };
    let pad = match &io.pad {
        Pad::Zero => "zero".into(),
        Pad::RepeatLast => "repeat_last".into(),
        Pad::Value(v) => format!("value({})", text(v)),
    };
    let wire = io.wire.as_ref().map(|(name, index)| format!(", wire `{name}[{}]`", text(index)));
    format!("`{} {}`{side}, pad {pad}{}.", io.elem.0, io.text, wire.unwrap_or_default())
}

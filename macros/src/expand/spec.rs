//! `impl RegionSpec`.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Expr, Lifetime, ext::IdentExt};

use super::{Expansion, Generated, count, rank};
use crate::{
    check::{Io, Kind},
    names::Bound,
};

impl<'e> Expansion<'e> {
    pub(super) fn spec(&self) -> TokenStream {
        let Expansion { item, region, names, g, b, bound, .. } = self;
        let ty = &item.ident;
        let (impl_generics, ty_generics, where_clause) = item.generics.split_for_impl();
        let Bound { this, tokens, bs } = bound;
        let lifetime = |name: &str| Lifetime::new(name, Span::call_site());
        let (with_a, with_r) = (self.with(&lifetime("'a")), self.with(&lifetime("'r")));
        let (with_any, with_static) = (self.with(&lifetime("'_")), self.with(&lifetime("'static")));
        let Generated { inputs, outputs, results, .. } = names;
        let (n_in, n_out) = (count(&region.inputs), count(&region.outputs));
        let rows = |ios: &[Io]| self.sizes(ios.iter().map(|io| &io.dims[io.axis]));
        let (in_rows, out_rows) = (rows(&region.inputs), rows(&region.outputs));
        let in_statics = self.statics(&region.inputs, "input", &format_ident!("__in"));
        let out_statics = self.statics(&region.outputs, "output", &format_ident!("__out"));
        let config = self.config();
        let fields = |ios: &'e [Io], each: &dyn Fn(usize, &Ident) -> TokenStream| {
            let fields = ios.iter().enumerate().map(|(i, io)| {
                let (field, value) = (&io.name, each(i, &io.name));
                quote!(#field: #value,)
            });
            let none = self.leaves_unused(ios).then(|| quote!(__none: ::core::marker::PhantomData,));
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
        let schema = self.chosen_schema();
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
                    #schema
                }
                fn config(&#this) -> ::std::boxed::Box<dyn #g::PiecewiseCudaGraphConfig> {
                    ::std::boxed::Box::new(#config)
                }
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
                    #in_rows
                }
                #[inline]
                fn out_rows(&#this, __dims: #g::Dims) -> [usize; #n_out] {
                    let (#bs, #tokens) = (__dims.bs, __dims.tokens);
                    #out_rows
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

    /// The schema of the region's element, which is known when the code is compiled.
    fn chosen_schema(&self) -> TokenStream {
        let (g, schemas) = (&self.g, self.variants().map(|v| v.schema));
        let Some(elements) = &self.region.elements else { return quote!(#(&#schemas)*) };
        let (param, elems) = (&elements.param.ident, elements.list.iter().map(|e| self.elem(e)));
        let list = elements.list.iter().map(|e| e.0.to_string()).collect::<Vec<_>>().join(", ");
        let why = format!("`{}` is a region for {param} = {list} only", self.item.ident);
        quote! {
            const {
                let __elem = <#param as #g::Element>::ELEM;
                #(if __elem as u8 == <#elems as #g::Element>::ELEM as u8 { &#schemas } else)*
                { ::core::panic!(#why) }
            }
        }
    }

    /// An array of sizes. Its type is known, so an expression of another type is an error at the expression.
    fn sizes<'x>(&self, exprs: impl IntoIterator<Item = &'x Expr>) -> TokenStream {
        let sizes = exprs.into_iter().map(|e| self.bound.expr(e));
        quote!([#(#sizes),*])
    }

    /// `make_static_inputs` for one side. The varying axis comes from `in_rows`, so that each expression is written
    /// once.
    fn statics(&self, ios: &[Io], method: &str, rows: &Ident) -> TokenStream {
        let g = &self.g;
        let each = ios.iter().enumerate().map(|(i, io)| {
            let (name, i) = (io.name.unraw().to_string(), Literal::usize_unsuffixed(i));
            let dims = io.dims.iter().enumerate().map(|(axis, dim)| match axis == io.axis {
                true => quote!(#rows[#i]),
                false => self.bound.expr(dim),
            });
            let (wired, wire) = match &io.wire {
                None => ("", None),
                Some((wire, index)) => {
                    let index = self.bound.expr(index);
                    ("wired_", Some(quote!(#g::Wire { name: #wire, index: #index })))
                }
            };
            let (method, rank) = (format_ident!("{wired}{method}"), rank(io));
            quote! {
                let __size: [usize; #rank] = [#(#dims),*];
                #g::Statics::#method(__statics, #name, __size, #wire);
            }
        });
        quote!(#(#each)*)
    }

    /// The default configuration.
    fn config(&self) -> TokenStream {
        let Expansion { region, g, .. } = self;
        let list = |exprs: &[Expr]| {
            let (n, sizes) = (exprs.len(), self.sizes(exprs));
            quote!({ let __sizes: [usize; #n] = #sizes; __sizes })
        };
        let mut config = match &region.kind {
            Kind::Packed(totals) => {
                let totals = list(totals);
                quote!(#g::PiecewisePackedConfig::new(#totals))
            }
            Kind::Batched(seq_len) => {
                let seq_len = list(std::slice::from_ref(seq_len));
                quote!(#g::PiecewiseBatchedConfig::new(#seq_len[0]))
            }
        };
        if let Some(sizes) = &region.batch_sizes {
            let sizes = list(sizes);
            config.extend(quote!(.capture_batch_sizes(#sizes)));
        }
        config.extend(region.compile.map(|yes| quote!(.compile(#yes))));
        config.extend(region.lease_before_step.map(|yes| quote!(.lease_before_step(#yes))));
        config
    }
}

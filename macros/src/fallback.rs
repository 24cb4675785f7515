//! What is emitted after a mistake: its messages, and stubs that keep the rest of the author's code quiet.
//!
//! The structs are the real ones, as far as the attributes could be read, and the trait is implemented without a
//! thought for sizes. Nothing is registered.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{DeriveInput, Error, GenericParam, Lifetime, Type, TypeParam, parse_quote};

use crate::{
    check::{On, Region},
    expand::{Expansion, Generated},
};

/// The messages of all mistakes, and the stubs.
pub(crate) fn fallback(item: &DeriveInput, region: &Region, mistakes: &[Error]) -> TokenStream {
    let messages = mistakes.iter().map(Error::to_compile_error);
    let mut item = item.clone();
    // A region lives for ever, so that is all that a stub can be written for.
    let this: Type = {
        let (ty, params) = (&item.ident, item.generics.params.iter());
        let params = params.map(|param| match param {
            GenericParam::Lifetime(_) => quote!('static),
            GenericParam::Type(t) => {
                let t = &t.ident;
                quote!(#t)
            }
            GenericParam::Const(c) => {
                let c = &c.ident;
                quote!(#c)
            }
        });
        parse_quote!(#ty<#(#params),*>)
    };
    let params = std::mem::take(&mut item.generics.params).into_iter();
    item.generics.params = params
        .filter(|p| !matches!(p, GenericParam::Lifetime(_)))
        .map(|p| match p {
            GenericParam::Type(t) => GenericParam::Type(with_bounds(region, t)),
            other => other,
        })
        .collect();
    let stubs = Expansion::new(&item, region).map(|x| stubs(&x, &this));
    quote!(#(#messages)* #stubs)
}

/// The parameter as it was checked, with a bound in any case.
fn with_bounds(region: &Region, param: TypeParam) -> TypeParam {
    let backend = match &region.on {
        Some(On::Crate(b) | On::These(b, _)) => Some(b),
        _ => None,
    };
    let checked = [backend, region.elements.as_ref().map(|e| &e.param)];
    checked.into_iter().flatten().find(|t| t.ident == param.ident).cloned().unwrap_or(param)
}

fn stubs(x: &Expansion<'_>, this: &Type) -> TokenStream {
    let Expansion { item, region, g, b, .. } = x;
    let Generated { inputs, outputs, results, .. } = &x.names;
    let lifetime = |name: &str| x.with(&Lifetime::new(name, Span::call_site()));
    let (with_a, with_r, with_any, with_static) =
        (lifetime("'a"), lifetime("'r"), lifetime("'_"), lifetime("'static"));
    let (impl_generics, _, where_clause) = item.generics.split_for_impl();
    let (structs, args) = (x.structs(), x.args(this));
    let (n_in, n_out) = (region.inputs.len(), region.outputs.len());
    quote! {
        #structs
        const _: () = {
            #args
            #[automatically_derived]
            #[allow(unused_variables)]
            impl #impl_generics #g::RegionSpec for #this #where_clause {
                type Backend = #b;
                type Inputs<'a> = #inputs #with_a;
                type Outputs<'a> = #outputs #with_a;
                type Results<'r> = #results #with_r;
                type InRows = [usize; #n_in];
                type OutRows = [usize; #n_out];
                fn schema(&self) -> &'static #g::Schema {
                    ::core::unimplemented!()
                }
                fn config(&self) -> ::std::boxed::Box<dyn #g::PiecewiseCudaGraphConfig> {
                    ::core::unimplemented!()
                }
                fn make_static_inputs(&self, shape: &#g::Shape, statics: &mut #g::Statics) {}
                fn in_rows(&self, dims: #g::Dims) -> [usize; #n_in] {
                    ::core::unimplemented!()
                }
                fn out_rows(&self, dims: #g::Dims) -> [usize; #n_out] {
                    ::core::unimplemented!()
                }
                fn inputs<'a>(&self, views: &'a [#g::AnyView<'a, #b>]) -> #inputs #with_a {
                    ::core::unimplemented!()
                }
                fn outputs<'a>(&self, views: &'a [#g::AnyView<'a, #b>]) -> #outputs #with_a {
                    ::core::unimplemented!()
                }
                fn results<'r>(
                    &self,
                    take: &mut dyn ::core::ops::FnMut(usize) -> #g::Result<#g::RawOut<'r, #b>>,
                ) -> #g::Result<#results #with_r> {
                    ::core::unimplemented!()
                }
                fn hold(held: #results #with_any) -> #results #with_static {
                    ::core::unimplemented!()
                }
            }
        };
    }
}

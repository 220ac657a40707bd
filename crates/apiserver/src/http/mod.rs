//! The HTTP API: one handler that routes by a request's path.

mod containers;
pub(crate) mod list;
pub(crate) mod negotiate;
pub(crate) mod nonresource;
pub(crate) mod options;
pub(crate) mod request;
pub(crate) mod respond;
mod review;
pub(crate) mod shares;
mod token;
pub(crate) mod watch;

use crate::auth::Identity;
use crate::managed_fields;
use crate::pipeline::{Api, Body, Cx, Deleted, Endpoint, Object, PatchKind, Target, View, Written};
use crate::registry::Resource;
use crate::selector::FieldSelector;
use crate::status::{ApiError, Details};
use crate::store::Key;
use crate::table::IncludeObject;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use equate_manifest::schema;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use negotiate::{Accepted, accept, content_type};
use options::{DeleteOptions, ListOptions, OptionsKind, Query, list_options, write_options};
use request::RequestInfo;
use respond::{Reply, failure};
use serde_json::{Value, json};
use shares::{Flow, Shares};
use std::sync::Arc;

/// The largest body (apiserver, 3 MiB).
const BODY_MAX: usize = 3 * 1024 * 1024;
/// No resource path comes near it.
const PATH_MAX: usize = 4096;
const COMPONENTS: &str = "v1 ComponentStatus is deprecated in v1.19+";

pub(crate) struct Server {
    pub api: Arc<Api>,
    pub documents: nonresource::Documents,
    /// `None`: all requests have one priority.
    pub shares: Option<Arc<Shares>>,
}

pub(crate) async fn handle(
    State(server): State<Arc<Server>>,
    request: Request<axum::body::Body>,
) -> Response {
    let (parts, body) = request.into_parts();
    let head = parts.method == Method::HEAD;
    let mut response = match server.route(parts, body).await {
        Ok(response) => response,
        Err(error) => failure(&error),
    };
    if head {
        *response.body_mut() = axum::body::Body::empty();
    }
    response
}

struct Call<'a> {
    server: &'a Server,
    view: View,
    method: &'a Method,
    headers: &'a HeaderMap,
    /// The host of an HTTP/2 request.
    authority: Option<&'a str>,
    query: Query,
    info: RequestInfo,
    identity: Identity,
}

/// A request of a user who may ask it.
struct Admitted {
    view: View,
    query: Query,
    info: RequestInfo,
    identity: Identity,
}

impl Server {
    async fn route(
        self: Arc<Self>,
        parts: http::request::Parts,
        body: axum::body::Body,
    ) -> Result<Response, ApiError> {
        let admitted = self.admitted(&parts)?;
        let flow = Flow::of(&admitted.identity, &admitted.info);
        let Some((shares, flow)) = self.shares.clone().zip(flow) else {
            return self.answer(admitted, &parts, body).await;
        };
        let answer = async move { self.answer(admitted, &parts, body).await };
        shares.answer(flow, Box::pin(answer)).await
    }

    fn admitted(&self, parts: &http::request::Parts) -> Result<Admitted, ApiError> {
        let path = decoded_path(parts.uri.path())?;
        let query = Query::parse(parts.uri.query());
        let watch = query.flag("watch");
        let selector = query
            .get("fieldSelector")
            .and_then(|s| FieldSelector::parse(s).ok());
        let info = RequestInfo::parse(
            &parts.method,
            &path,
            watch,
            selector.as_ref().and_then(FieldSelector::name),
        );
        let view = self.api.view();
        let identity = self.admit(&view, parts, &info)?;
        Ok(Admitted {
            view,
            query,
            info,
            identity,
        })
    }

    async fn answer(
        &self,
        admitted: Admitted,
        parts: &http::request::Parts,
        body: axum::body::Body,
    ) -> Result<Response, ApiError> {
        let Admitted {
            view,
            query,
            info,
            identity,
        } = admitted;
        let call = Call {
            server: self,
            view,
            method: &parts.method,
            headers: &parts.headers,
            authority: parts.uri.authority().map(http::uri::Authority::as_str),
            query,
            info,
            identity,
        };
        if call.info.is_resource {
            // Read before anything can fail: a client that is still sending would not see the answer.
            let body = axum::body::Body::from(read_all(body).await?);
            call.resource(body).await
        } else {
            nonresource::respond(&call)
        }
    }
}

impl Server {
    fn admit(
        &self,
        view: &View,
        parts: &http::request::Parts,
        info: &RequestInfo,
    ) -> Result<Identity, ApiError> {
        let auth = &self.api.auth;
        let now = (self.api.clock)();
        let caller = auth.authenticate(&view.snapshot, now, &parts.headers, &parts.extensions)?;
        let request = info.attributes();
        let identity = auth.impersonate(&view.snapshot, caller, &parts.headers, &request)?;
        auth.require(&view.snapshot, &identity, &request)?;
        Ok(identity)
    }
}

fn decoded_path(path: &str) -> Result<String, ApiError> {
    if path.len() > PATH_MAX {
        return Err(ApiError::new(
            414,
            "",
            format!("the path is longer than {PATH_MAX} bytes"),
            Some(Details::default()),
        ));
    }
    percent_encoding::percent_decode_str(path)
        .decode_utf8()
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| ApiError::bad_request("the path is not UTF-8"))
}

impl Call<'_> {
    fn api(&self) -> &Api {
        &self.server.api
    }

    async fn resource(self, body: axum::body::Body) -> Result<Response, ApiError> {
        let info = &self.info;
        let Some(resource) = self
            .view
            .registry
            .get(&info.group, &info.version, &info.resource)
            .cloned()
        else {
            let core = info.path.starts_with("/api/");
            return if core || self.view.registry.serves(&info.group, &info.version) {
                Err(ApiError::no_such_resource())
            } else {
                Ok(respond::text(StatusCode::NOT_FOUND, "404 page not found\n"))
            };
        };
        let collection = !info.named;
        let namespace = if resource.namespaced {
            info.namespace.clone()
        } else {
            String::new()
        };
        // `namespaces/a` is authorized in the namespace `a`; `namespaces/a/namespaces/b` must not be.
        let own = resource.is_namespace() && info.named && info.namespace == info.name;
        if !resource.namespaced && !info.namespace.is_empty() && !own {
            return Err(ApiError::no_such_resource());
        }
        if resource.namespaced && namespace.is_empty() && !collection {
            return Err(ApiError::no_such_resource());
        }
        if !resource.stored() && !resource.is_computed() {
            if let Some(answered) = self.review(&resource, body).await {
                return answered;
            }
            return Err(ApiError::not_supported(
                format_args!("{}.{}", resource.plural, resource.group)
                    .to_string()
                    .trim_end_matches('.'),
            ));
        }
        let target = Target {
            name: if collection {
                String::new()
            } else {
                info.name.clone()
            },
            resource,
            namespace,
            endpoint: Endpoint::Main,
        };
        if collection {
            let computed = target.resource.is_computed();
            let mut response = self.collection(target, body).await?;
            if computed {
                respond::warn(response.headers_mut(), &[COMPONENTS.to_owned()]);
            }
            return Ok(response);
        }
        match info.subresource.as_str() {
            "" => self.item(target, body).await,
            _ => self.subresource(target, body).await,
        }
    }

    async fn collection(self, target: Target, body: axum::body::Body) -> Result<Response, ApiError> {
        match self.method.as_str() {
            "GET" => {
                let watch = self.info.verb == "watch";
                self.allowed(&target.resource, if watch { "watch" } else { "list" })?;
                let reply = self.reply_for(&target.resource)?;
                let options = list_options(&self.query, watch)?;
                self.list_or_watch(&target, reply, &options).await
            }
            "POST" => {
                self.allowed(&target.resource, "create")?;
                if target.resource.namespaced && target.namespace.is_empty() {
                    return Err(ApiError::method_not_allowed());
                }
                let reply = self.reply_for(&target.resource)?;
                let mut cx = self.writer(OptionsKind::Create)?;
                let body = self.body(body).await?;
                let written = self.api().create(&target, &body, &mut cx).await?;
                let written = self.shown(&target, written).await?;
                Ok(written_response(&reply, &target.resource, &written, &cx))
            }
            "DELETE" => {
                self.allowed(&target.resource, "deletecollection")?;
                if target.resource.namespaced && target.namespace.is_empty() {
                    return Err(ApiError::method_not_allowed());
                }
                self.delete_collection(&target, body).await
            }
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    async fn list_or_watch(
        &self,
        target: &Target,
        reply: Reply,
        options: &ListOptions,
    ) -> Result<Response, ApiError> {
        let resource = &target.resource;
        let namespace = (!target.namespace.is_empty()).then(|| target.namespace.clone());
        if options.watch {
            return watch::respond(
                &self.server.api,
                &self.view,
                reply,
                Arc::clone(resource),
                namespace,
                options,
            )
            .await;
        }
        let page = list::page(self.api(), &self.view, resource, namespace.as_deref(), options).await?;
        list::respond(&reply, resource, &page)
    }

    async fn delete_collection(&self, target: &Target, body: axum::body::Body) -> Result<Response, ApiError> {
        let reply = self.reply_for(&target.resource)?;
        let listing = list_options(&self.query, false)?;
        let options = self.delete_options(body).await?;
        let namespace = (!target.namespace.is_empty()).then_some(target.namespace.as_str());
        let page = list::page(self.api(), &self.view, &target.resource, namespace, &listing).await?;
        let mut warnings = Vec::new();
        for entry in &page.entries {
            let name = entry.view()["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let one = Target {
                name,
                ..target.clone()
            };
            let deleted = self.api().delete(&one, &options, &self.identity, &mut warnings);
            match deleted.await {
                Ok(_) => {}
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let mut response = list::respond(&reply, &target.resource, &page)?;
        respond::warn(response.headers_mut(), &warnings);
        Ok(response)
    }

    async fn item(self, target: Target, body: axum::body::Body) -> Result<Response, ApiError> {
        match self.method.as_str() {
            "GET" => {
                self.allowed(&target.resource, "get")?;
                let reply = self.reply_for(&target.resource)?;
                let entry = self.stored(&target).await?;
                Ok(reply.object(&target.resource, &Object::Stored(entry), StatusCode::OK))
            }
            "PUT" => {
                self.allowed(&target.resource, "update")?;
                self.put(&target, body).await
            }
            "PATCH" => {
                self.allowed(&target.resource, "patch")?;
                self.patch(&target, body).await
            }
            "DELETE" => {
                self.allowed(&target.resource, "delete")?;
                let reply = self.reply_for(&target.resource)?;
                let options = self.delete_options(body).await?;
                let mut warnings = Vec::new();
                let deleted = self
                    .api()
                    .delete(&target, &options, &self.identity, &mut warnings)
                    .await?;
                let deleted = match deleted {
                    Deleted::Gone(object) => {
                        Deleted::Gone(self.api().object_as(&target.resource, object).await?)
                    }
                    Deleted::Marked(object) => {
                        Deleted::Marked(self.api().object_as(&target.resource, object).await?)
                    }
                };
                let mut response = deleted_response(&reply, &target, &deleted);
                respond::warn(response.headers_mut(), &warnings);
                Ok(response)
            }
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    async fn subresource(self, mut target: Target, body: axum::body::Body) -> Result<Response, ApiError> {
        let name = self.info.subresource.clone();
        let known = target
            .resource
            .subresources
            .iter()
            .find(|s| s.name == name)
            .cloned();
        let streaming = ["exec", "attach", "portforward", "proxy", "log"];
        if known.is_none() {
            let first = name.split('/').next().unwrap_or_default();
            return Err(match first {
                "proxy" => unsupported(&target, first),
                // For custom resources, upstream answers as if the object were absent.
                _ if target.resource.is_custom() => target.not_found(),
                _ => ApiError::no_such_resource(),
            });
        }
        if streaming.contains(&name.as_str()) {
            return match target.resource.kind.as_str() {
                "Pod" if name != "proxy" => self.container(&target, &name),
                _ if self.view.snapshot.get(&target.key()).is_some() => Err(unsupported(&target, &name)),
                _ => Err(target.not_found()),
            };
        }
        let verb = match self.method.as_str() {
            "GET" => "get",
            "PUT" => "update",
            "PATCH" => "patch",
            "POST" => "create",
            _ => return Err(ApiError::method_not_allowed()),
        };
        if !known.is_some_and(|s| s.verbs.iter().any(|v| v == verb)) {
            return Err(ApiError::method_not_allowed());
        }
        target.endpoint = match name.as_str() {
            "status" => Endpoint::Status,
            "approval" => Endpoint::Other("approval"),
            "scale" => Endpoint::Scale,
            "finalize" => Endpoint::Finalize,
            "ephemeralcontainers" => Endpoint::Other("ephemeralcontainers"),
            "resize" => Endpoint::Other("resize"),
            "binding" => Endpoint::Other("binding"),
            "eviction" => return self.eviction(&target, body).await,
            "token" => return self.token(&target, body).await,
            other => return Err(unsupported(&target, other)),
        };
        match (target.endpoint, verb) {
            (Endpoint::Other("binding"), _) => self.binding(&target, body).await,
            (Endpoint::Scale, "get") => {
                let scale = self.api().scale(&target).await?;
                let reply = self.reply_for(&target.resource)?;
                Ok(reply.object(
                    &Resource::scale_view(&target.resource),
                    &Object::Built(Box::new(scale)),
                    StatusCode::OK,
                ))
            }
            (Endpoint::Scale, _) => self.write_scale(&target, verb, body).await,
            (_, "get") => {
                let reply = self.reply_for(&target.resource)?;
                let entry = self.stored(&target).await?;
                Ok(reply.object(&target.resource, &Object::Stored(entry), StatusCode::OK))
            }
            (_, "update") => self.put(&target, body).await,
            _ => self.patch(&target, body).await,
        }
    }

    async fn write_scale(
        &self,
        target: &Target,
        verb: &str,
        body: axum::body::Body,
    ) -> Result<Response, ApiError> {
        let reply = self.reply_for(&target.resource)?;
        let (kind, how) = if verb == "update" {
            (OptionsKind::Update, None)
        } else {
            let kind = self.patch_kind(&target.resource)?;
            let apply = kind == PatchKind::Apply;
            (
                OptionsKind::Patch { apply },
                Some((kind, self.query.flag("force"))),
            )
        };
        let mut cx = self.writer(kind)?;
        let body = match how {
            None => self.body(body).await?,
            Some(_) => Body {
                bytes: read_all(body).await?,
                kind: crate::pipeline::BodyKind::Json,
            },
        };
        let written = self.api().write_scale(target, &body, how, &mut cx).await?;
        Ok(written_response(
            &reply,
            &Resource::scale_view(&target.resource),
            &written,
            &cx,
        ))
    }

    async fn binding(&self, target: &Target, body: axum::body::Body) -> Result<Response, ApiError> {
        let reply = self.reply()?;
        let mut cx = self.writer(OptionsKind::Create)?;
        let binding = self.body(body).await?.parse()?.value;
        self.api().bind(target, &binding, &mut cx).await?;
        Ok(reply.value(StatusCode::CREATED, &success(None, Some(201))))
    }

    async fn eviction(&self, target: &Target, body: axum::body::Body) -> Result<Response, ApiError> {
        let reply = self.reply()?;
        let cx = self.writer(OptionsKind::Create)?;
        let eviction = self.body(body).await?.parse()?.value;
        let mut eviction = decoded(EVICTION, eviction)?;
        let name = eviction["metadata"]["name"].as_str().unwrap_or_default();
        if !name.is_empty() && name != target.name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        let mut options = match eviction["deleteOptions"].take() {
            Value::Null => DeleteOptions::default(),
            given => DeleteOptions::from_body(&given)?,
        };
        options.dry_run |= cx.dry_run();
        self.api().evict(target, &options, &self.identity).await?;
        Ok(reply.value(StatusCode::CREATED, &success(None, Some(201))))
    }

    async fn put(&self, target: &Target, body: axum::body::Body) -> Result<Response, ApiError> {
        let reply = self.reply_for(&target.resource)?;
        let mut cx = self.writer(OptionsKind::Update)?;
        if target.resource.strategy.create_on_update {
            self.may_create_absent(target)?;
        }
        let body = self.body(body).await?;
        let written = self.api().update(target, &body, &mut cx).await?;
        let written = self.shown(target, written).await?;
        Ok(written_response(&reply, &target.resource, &written, &cx))
    }

    async fn patch(&self, target: &Target, body: axum::body::Body) -> Result<Response, ApiError> {
        let reply = self.reply_for(&target.resource)?;
        let kind = self.patch_kind(&target.resource)?;
        let apply = kind == PatchKind::Apply;
        let mut cx = self.writer(OptionsKind::Patch { apply })?;
        if apply {
            self.may_create_absent(target)?;
        }
        let body = Body {
            bytes: read_all(body).await?,
            kind: crate::pipeline::BodyKind::Json,
        };
        let force = self.query.flag("force");
        let written = self.api().patch(target, &body, kind, force, &mut cx).await?;
        let written = self.shown(target, written).await?;
        Ok(written_response(&reply, &target.resource, &written, &cx))
    }

    /// Writing to an absent name creates the object, and needs the right to.
    fn may_create_absent(&self, target: &Target) -> Result<(), ApiError> {
        let snapshot = &self.view.snapshot;
        if target.endpoint != Endpoint::Main || snapshot.get(&target.key()).is_some() {
            return Ok(());
        }
        let create = RequestInfo {
            verb: "create",
            ..self.info.clone()
        };
        self.api()
            .auth
            .require(snapshot, &self.identity, &create.attributes())
    }

    fn patch_kind(&self, resource: &Resource) -> Result<PatchKind, ApiError> {
        let custom = resource.is_custom();
        Ok(match content_type(self.headers).unwrap_or_default() {
            "application/json-patch+json" => PatchKind::Json,
            "application/merge-patch+json" => PatchKind::Merge,
            "application/strategic-merge-patch+json" if !custom => PatchKind::Strategic,
            "application/strategic-merge-patch+json" => {
                return Err(ApiError::unsupported_media_type(&[
                    "application/json-patch+json",
                    "application/merge-patch+json",
                    "application/apply-patch+yaml",
                ]));
            }
            "application/apply-patch+yaml" => PatchKind::Apply,
            "application/apply-patch+cbor" => {
                return Err(ApiError::unsupported_media_type(&[
                    "application/apply-patch+yaml",
                ]));
            }
            _ => {
                return Err(ApiError::new(
                    415,
                    "UnsupportedMediaType",
                    "415: Unsupported Media Type",
                    Some(Details::default()),
                ));
            }
        })
    }

    fn allowed(&self, resource: &Resource, verb: &str) -> Result<(), ApiError> {
        if resource.verbs.iter().any(|v| v == verb) {
            Ok(())
        } else {
            Err(ApiError::method_not_allowed())
        }
    }

    async fn stored(&self, target: &Target) -> Result<Arc<crate::store::Entry>, ApiError> {
        let snapshot = match self.query.get("resourceVersion").unwrap_or_default() {
            "" | "0" => self.view.snapshot.clone(),
            text => {
                let revision = options::parse_revision(text)?;
                list::at(
                    self.api(),
                    &self.view,
                    &target.resource.storage(),
                    options::At::NotOlderThan(revision),
                )
                .await?
            }
        };
        let key: Key = target.key();
        let entry = snapshot.get(&key).ok_or_else(|| target.not_found())?;
        self.api().entry_as(&target.resource, entry).await
    }

    async fn shown(&self, target: &Target, written: Written) -> Result<Written, ApiError> {
        let object = self.api().object_as(&target.resource, written.object).await?;
        Ok(Written { object, ..written })
    }

    /// For objects of a resource, also as a table or their metadata alone.
    fn reply_for(&self, resource: &Resource) -> Result<Reply, ApiError> {
        self.reply_in(accept(self.headers, true, !resource.is_custom())?)
    }

    fn reply(&self) -> Result<Reply, ApiError> {
        self.reply_in(accept(self.headers, false, true)?)
    }

    fn reply_in(&self, accepted: Accepted) -> Result<Reply, ApiError> {
        let include_object = match self.query.get("includeObject") {
            Some("None") => IncludeObject::None,
            Some("Object") => IncludeObject::Object,
            _ => IncludeObject::Metadata,
        };
        Ok(Reply {
            accepted,
            include_object,
            gzip: self.takes_gzip(),
            now: (self.api().clock)(),
        })
    }

    /// For documents with one form, whatever the client accepts.
    fn reply_any(&self) -> Reply {
        Reply {
            accepted: Accepted::JSON,
            include_object: IncludeObject::Metadata,
            gzip: self.takes_gzip(),
            now: (self.api().clock)(),
        }
    }

    fn takes_gzip(&self) -> bool {
        self.headers
            .get(header::ACCEPT_ENCODING)
            .and_then(|v| v.to_str().ok())
            .is_some_and(|v| v.split(',').any(|e| e.trim().starts_with("gzip")))
    }

    fn writer(&self, kind: OptionsKind) -> Result<Cx<'_>, ApiError> {
        let options = write_options(&self.query, kind)?;
        let agent = self
            .headers
            .get(header::USER_AGENT)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default();
        let manager =
            managed_fields::manager_name(options.field_manager.as_deref().unwrap_or_default(), agent);
        Ok(Cx {
            identity: &self.identity,
            manager,
            options,
            warnings: Vec::new(),
        })
    }

    async fn body(&self, body: axum::body::Body) -> Result<Body, ApiError> {
        let kind = content_type(self.headers).map(str::to_owned);
        Body::new(read_all(body).await?, kind.as_deref())
    }

    async fn delete_options(&self, body: axum::body::Body) -> Result<DeleteOptions, ApiError> {
        let bytes = read_all(body).await?;
        if bytes.is_empty() {
            return DeleteOptions::from_query(&self.query);
        }
        let body = Body::new(bytes, content_type(self.headers))?;
        let value = body.parse()?.value;
        if value.is_null() {
            return DeleteOptions::from_query(&self.query);
        }
        let kind = value["kind"].as_str().unwrap_or("DeleteOptions");
        if kind != "DeleteOptions" {
            return Err(ApiError::bad_request(format!(
                "decoded object cannot be converted to DeleteOptions: {kind}"
            )));
        }
        let mut options = DeleteOptions::from_body(&decoded(DELETE_OPTIONS, value)?)?;
        options.dry_run |= DeleteOptions::from_query(&self.query)?.dry_run;
        Ok(options)
    }
}

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const EVICTION: &str = "io.k8s.api.policy.v1.Eviction";

/// A body that is no object of a registry, decoded by its schema: a field of a wrong type is refused, not
/// skipped.
fn decoded(definition: &str, value: Value) -> Result<Value, ApiError> {
    schema::decode(schema::kubernetes(), definition, value)
        .map(|decoded| decoded.value)
        .map_err(|error| ApiError::bad_request(error.to_string()))
}

fn unsupported(target: &Target, subresource: &str) -> ApiError {
    ApiError::not_supported(format_args!("{}/{subresource}", target.group_resource()))
}

async fn read_all(body: axum::body::Body) -> Result<Bytes, ApiError> {
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {BODY_MAX}"),
            Some(Details::default()),
        )),
        Err(error) => Err(ApiError::bad_request(format!(
            "the body could not be read: {error}"
        ))),
    }
}

fn written_response(reply: &Reply, resource: &Resource, written: &Written, cx: &Cx<'_>) -> Response {
    let code = if written.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let mut response = reply.object(resource, &written.object, code);
    respond::warn(response.headers_mut(), &cx.warnings);
    response
}

fn deleted_response(reply: &Reply, target: &Target, deleted: &Deleted) -> Response {
    let resource = &target.resource;
    match deleted {
        Deleted::Marked(object) => reply.object(resource, object, StatusCode::OK),
        Deleted::Gone(object) if resource.strategy.delete_returns_object => {
            reply.object(resource, object, StatusCode::OK)
        }
        Deleted::Gone(object) => {
            let uid = object.value()["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let details = Details {
                name: target.name.clone(),
                group: resource.group.clone(),
                kind: resource.plural.clone(),
                uid,
                ..Details::default()
            };
            reply.value(StatusCode::OK, &success(Some(&details), None))
        }
    }
}

fn success(details: Option<&Details>, code: Option<u16>) -> Value {
    let mut out = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" });
    if let Some(details) = details {
        out["details"] = details.to_value();
    }
    if let Some(code) = code {
        out["code"] = json!(code);
    }
    out
}

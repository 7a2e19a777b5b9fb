//! The rows and their indexes: plain data goes in with the time of the write, shared rows come out.
//!
//! What stays true: a row is never taken away, an id never given twice within a table, a name never twice under
//! one parent, an external id never twice within a table; and the clock of the rows never runs backwards. Nothing
//! here does I/O, so the lock around it is only ever held for the length of a look-up.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::entity::{Attributes, Entity, stored_name};
use super::filter::{Filter, Only};
use super::like::Pattern;
use super::listing::Listing;
use super::order::{Order, OrderBy};
use super::properties::Properties;
use super::refusal::Refusal;
use super::schema::{Kind, Naming, Table};

/// The columns for names and external ids are `varchar(255)`, and a name has its parent's id before it.
const COLUMN_CHARACTERS: usize = 255;

/// An entity that is to be made.
#[derive(Debug)]
pub(super) struct NewEntity {
    pub(super) kind: Kind,
    /// Mostly none: the next one that is free.
    pub(super) id: Option<i32>,
    pub(super) parent: Option<i32>,
    pub(super) name: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) description: Option<String>,
    pub(super) properties: Properties,
    pub(super) attributes: Attributes,
}

/// What is to be changed of an entity; what is absent stays.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) external_id: Option<String>,
    pub(super) description: Option<String>,
    /// Replaces the whole map.
    pub(super) properties: Option<Properties>,
    pub(super) attributes: Attributes,
}

/// Everything that the registry keeps.
#[derive(Debug, Default)]
pub(super) struct Store {
    tables: [Rows; Table::COUNT],
    indexes: [Indexes; Kind::COUNT],
    /// The time of the last write.
    clock: i64,
}

/// One table.
#[derive(Debug, Default)]
struct Rows {
    by_id: HashMap<i32, Arc<Entity>>,
    external_ids: HashMap<Box<str>, i32>,
    /// The last id that was given out.
    last_id: i32,
}

/// The indexes over one kind.
#[derive(Debug, Default)]
struct Indexes {
    all: Order,
    /// By parent; those of a kind without parents are all under none.
    families: HashMap<Option<i32>, Family>,
}

/// The entities of one kind under one parent.
#[derive(Debug, Default)]
struct Family {
    order: Order,
    names: BTreeMap<Arc<str>, i32>,
}

impl Store {
    /// The entity of that kind with that id.
    pub(super) fn get(&self, kind: Kind, id: i32) -> Option<&Arc<Entity>> {
        self.rows(kind).by_id.get(&id).filter(|entity| entity.kind == kind)
    }

    /// The entity of that kind with that external id.
    pub(super) fn find_external(&self, kind: Kind, external_id: &str) -> Option<&Arc<Entity>> {
        let id = self.rows(kind).external_ids.get(external_id)?;
        self.get(kind, *id)
    }

    /// Up to two entities under that parent whose name matches the pattern: one is a find, two are too many.
    pub(super) fn find_named(&self, kind: Kind, parent: Option<i32>, pattern: &str) -> Vec<Arc<Entity>> {
        let Some(family) = self.indexes[kind.index()].families.get(&parent) else {
            return Vec::new();
        };
        let pattern = Pattern::new(pattern);
        let (prefix, whole) = pattern.prefix();
        let matching: Box<dyn Iterator<Item = &i32>> = if whole {
            Box::new(family.names.get(prefix.as_str()).into_iter())
        } else {
            let from = Arc::<str>::from(prefix.as_str());
            Box::new(
                family
                    .names
                    .range(from..)
                    .take_while(move |(name, _)| name.starts_with(&prefix))
                    .filter(move |(name, _)| pattern.matches(name))
                    .map(|(_, id)| id),
            )
        };
        matching.filter_map(|id| self.get(kind, *id)).take(2).cloned().collect()
    }

    /// One page of a list, and whether more follows. Without a parent it is the list of all of the kind.
    pub(super) fn list(
        &self,
        kind: Kind,
        parent: Option<i32>,
        listing: &Listing,
        keep: impl Fn(&Entity) -> bool,
    ) -> (Vec<Arc<Entity>>, bool) {
        let indexes = &self.indexes[kind.index()];
        let order = match parent {
            None => &indexes.all,
            Some(_) => match indexes.families.get(&parent) {
                Some(family) => &family.order,
                None => return (Vec::new(), false),
            },
        };
        let limit = listing.limit();
        let mut page = Vec::new();
        let only = listing.filter.as_ref().and_then(Filter::only);
        let ids: Box<dyn Iterator<Item = i32>> = match only {
            // Whoever asks for one entity gets at most one page, so there is nothing behind a cursor.
            Some(_) if listing.after.is_some() => Box::new(std::iter::empty()),
            Some(Only::Id(id)) => Box::new(i32::try_from(id).ok().into_iter()),
            Some(Only::Name(name)) => Box::new(
                indexes.families.get(&None).and_then(|family| family.names.get(name).copied()).into_iter(),
            ),
            None => order.walk(listing.by, listing.descending, listing.after),
        };
        for entity in ids.filter_map(|id| self.get(kind, id)) {
            let wanted = (parent.is_none() || entity.parent == parent)
                && keep(entity)
                && listing.filter.as_ref().is_none_or(|filter| filter.matches(entity));
            if wanted {
                if page.len() == limit {
                    return (page, true);
                }
                page.push(Arc::clone(entity));
            }
        }
        (page, false)
    }

    /// All entities of a kind, by id.
    pub(super) fn all(&self, kind: Kind) -> impl Iterator<Item = &Arc<Entity>> {
        self.indexes[kind.index()].all.walk(OrderBy::Id, false, None).filter_map(move |id| self.get(kind, id))
    }

    /// Makes an entity.
    pub(super) fn create(&mut self, new: NewEntity, now: i64) -> Result<Arc<Entity>, Refusal> {
        let schema = new.kind.schema();
        let id = self.choose_id(&new)?;
        let name: Arc<str> = match (new.name, schema.naming) {
            (Some(name), _) => name.into(),
            (None, Naming::MadeUp) => made_up_name(id).into(),
            (None, Naming::Empty | Naming::Required) => Arc::from(""),
        };
        check_column("name", &stored_name(new.parent, &name))?;
        let indexes = &self.indexes[new.kind.index()];
        // An artifact without a parent gets a prefix of its own in the database: its name is never taken.
        let unique = schema.parent.is_none() || new.parent.is_some();
        let taken = unique
            && indexes.families.get(&new.parent).is_some_and(|family| family.names.contains_key(&*name));
        if taken {
            return Err(Refusal::Conflict(format!("{} with name {name} already exists", schema.noun)));
        }
        if let Some(external_id) = &new.external_id {
            self.check_external_id(new.kind, external_id, id)?;
        }

        let now = self.advance(now);
        let entity = Arc::new(Entity {
            id,
            kind: new.kind,
            parent: new.parent,
            name: Arc::clone(&name),
            external_id: new.external_id.map(String::into_boxed_str),
            description: new.description.map(String::into_boxed_str),
            properties: new.properties,
            attributes: new.attributes,
            created: now,
            updated: now,
        });
        let rows = &mut self.tables[schema.table.index()];
        if let Some(external_id) = &entity.external_id {
            rows.external_ids.insert(external_id.clone(), id);
        }
        rows.by_id.insert(id, Arc::clone(&entity));
        let indexes = &mut self.indexes[new.kind.index()];
        indexes.all.insert(id, now, now);
        let family = indexes.families.entry(new.parent).or_default();
        family.order.insert(id, now, now);
        if unique {
            family.names.insert(name, id);
        }
        Ok(entity)
    }

    /// Changes an entity.
    pub(super) fn patch(
        &mut self,
        kind: Kind,
        id: i32,
        change: Change,
        now: i64,
    ) -> Result<Arc<Entity>, Refusal> {
        let noun = kind.schema().noun;
        let Some(entity) = self.get(kind, id).cloned() else {
            return Err(Refusal::NotFound(format!("no {noun} found for id {id}")));
        };
        if change.properties.is_none() && entity.properties.has_struct() {
            return Err(Refusal::BadRequest(format!(
                "{noun} {id} has a struct property that cannot be decoded: send customProperties"
            )));
        }
        if let Some(external_id) = &change.external_id {
            self.check_external_id(kind, external_id, id)?;
        }

        let now = self.advance(now);
        let mut changed = Entity::clone(&entity);
        let rows = &mut self.tables[kind.schema().table.index()];
        if let Some(external_id) = change.external_id {
            if let Some(before) = &entity.external_id {
                rows.external_ids.remove(before);
            }
            rows.external_ids.insert(external_id.as_str().into(), id);
            changed.external_id = Some(external_id.into_boxed_str());
        }
        if let Some(description) = change.description {
            changed.description = Some(description.into_boxed_str());
        }
        if let Some(properties) = change.properties {
            changed.properties = properties;
        }
        for (field, value) in change.attributes {
            changed.set(field, value);
        }
        changed.updated = now;

        let changed = Arc::new(changed);
        rows.by_id.insert(id, Arc::clone(&changed));
        let indexes = &mut self.indexes[kind.index()];
        indexes.all.touch(id, entity.updated, now);
        if let Some(family) = indexes.families.get_mut(&entity.parent) {
            family.order.touch(id, entity.updated, now);
        }
        Ok(changed)
    }

    fn rows(&self, kind: Kind) -> &Rows {
        &self.tables[kind.schema().table.index()]
    }

    fn choose_id(&mut self, new: &NewEntity) -> Result<i32, Refusal> {
        let rows = &mut self.tables[new.kind.schema().table.index()];
        if let Some(id) = new.id {
            return if rows.by_id.contains_key(&id) {
                Err(Refusal::Conflict(format!("id {id} is taken")))
            } else {
                Ok(id)
            };
        }
        let mut id = rows.last_id;
        loop {
            id = id.checked_add(1).ok_or_else(|| Refusal::Internal("there are no more ids".to_owned()))?;
            if !rows.by_id.contains_key(&id) {
                rows.last_id = id;
                return Ok(id);
            }
        }
    }

    fn check_external_id(&self, kind: Kind, external_id: &str, id: i32) -> Result<(), Refusal> {
        check_column("externalId", external_id)?;
        match self.rows(kind).external_ids.get(external_id) {
            Some(owner) if *owner != id => {
                Err(Refusal::Conflict(format!("external id {external_id} already exists")))
            }
            _ => Ok(()),
        }
    }

    fn advance(&mut self, now: i64) -> i64 {
        self.clock = self.clock.max(now);
        self.clock
    }
}

/// The database itself refuses what does not fit, and the registry calls that its own fault: 500.
fn check_column(column: &str, value: &str) -> Result<(), Refusal> {
    if value.chars().count() > COLUMN_CHARACTERS {
        return Err(Refusal::Internal(format!(
            "value too long for column {column}: character varying({COLUMN_CHARACTERS})"
        )));
    }
    Ok(())
}

/// A name in the form of a UUID, the same on every run.
fn made_up_name(id: i32) -> String {
    format!("00000000-0000-4000-8000-{id:012x}")
}

//! The image for containers: an archive of the OCI layout with one image for each architecture, written without a
//! daemon and from nothing else: the static binary, the certificates of public authorities, a user without rights,
//! licences.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::inventory::Inventory;
use super::tree::{Tree, gzip};
use super::{Arch, Release, sha256};

/// Whom the program runs as: the number that other images use for a user without rights.
const USER: u32 = 65_532;
/// Working directory, in which it leaves archives.
const FOLDER: &str = "runs";
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Writes it for all architectures.
pub(super) fn write(
    release: &Release,
    programs: &[(Arch, Vec<u8>)],
    inventory: &Inventory,
) -> Result<()> {
    let mut layout = Tree::default();
    let mut manifests = Vec::new();
    for (arch, program) in programs {
        let mut manifest = image(release, *arch, &files(program, inventory)?, &mut layout)?;
        manifest["platform"] = json!({ "architecture": arch.debian(), "os": "linux" });
        manifests.push(manifest);
    }
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
    let mut all = add(&mut layout, INDEX, serde_json::to_vec(&index)?);
    all["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    let entry = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [all] });
    layout.add("index.json", 0o644, serde_json::to_vec(&entry)?);
    layout.add("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec());
    fs::write(release.file("-oci.tar"), layout.tar(release.seconds())?)?;
    Ok(())
}

/// Returns the files of a container.
fn files(program: &[u8], inventory: &Inventory) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.add("plimsoll", 0o755, program.to_vec());
    let users = format!("root:x:0:0::/:/\nplimsoll:x:{USER}:{USER}::/{FOLDER}:/\n");
    tree.add("etc/passwd", 0o644, users.into_bytes());
    tree.add("etc/group", 0o644, format!("root:x:0:\nplimsoll:x:{USER}:\n").into_bytes());
    tree.add(&CERTIFICATES[1..], 0o644, fs::read(CERTIFICATES).context(CERTIFICATES)?);
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        tree.add(&format!("licences/{name}"), 0o644, fs::read(name).context(name)?);
    }
    let licences = gzip(inventory.licences().as_bytes())?;
    tree.add("licences/THIRD-PARTY-LICENCES.gz", 0o644, licences);
    tree.add_folder(FOLDER, 0o755, USER);
    tree.add_folder("tmp", 0o1777, 0);
    Ok(tree)
}

/// Adds the image of one architecture, and returns what names it.
fn image(release: &Release, arch: Arch, files: &Tree, layout: &mut Tree) -> Result<Value> {
    let tar = files.tar(release.seconds())?;
    let unpacked = digest(&tar);
    let layer = add(layout, LAYER, gzip(&tar)?);
    let mut labels = json!({
        "org.opencontainers.image.created": release.timestamp(),
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.title": "plimsoll",
        "org.opencontainers.image.version": release.version,
    });
    if let Some(revision) = &release.revision {
        labels["org.opencontainers.image.revision"] = json!(revision);
    }
    let config = json!({
        "architecture": arch.debian(),
        "os": "linux",
        "created": release.timestamp(),
        "config": {
            "User": format!("{USER}:{USER}"),
            "Entrypoint": ["/plimsoll"],
            "WorkingDir": format!("/{FOLDER}"),
            "Labels": labels,
        },
        "rootfs": { "type": "layers", "diff_ids": [unpacked] },
        "history": [{ "created": release.timestamp(), "created_by": "cargo xtask dist" }],
    });
    let config = add(layout, CONFIG, serde_json::to_vec(&config)?);
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config,
        "layers": [layer],
        "annotations": labels,
    });
    Ok(add(layout, MANIFEST, serde_json::to_vec(&manifest)?))
}

/// Adds a blob, and returns its descriptor.
fn add(layout: &mut Tree, media_type: &str, content: Vec<u8>) -> Value {
    let (digest, bytes) = (digest(&content), content.len());
    layout.add(&format!("blobs/{}", digest.replace(':', "/")), 0o644, content);
    json!({ "mediaType": media_type, "digest": digest, "size": bytes })
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

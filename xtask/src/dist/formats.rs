//! The installed files, and the three formats that they come in. They hold the same; no script of a package runs when
//! it is installed, and no service is started.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::inventory::Inventory;
use super::tree::{Tree, gzip};
use super::{Arch, Release, output};

const SUMMARY: &str = "Finds how much load a server carries before latency rises";
const DESCRIPTION: &str = "\
plimsoll finds how many requests per second or connections a server carries before latency rises, and which
resource runs out first. It generates the load, holds connections, watches hosts, and writes reports.
";
/// Maintainer field of packages. The address is invalid on purpose: mail is for those who repackage the program.
const MAINTAINER: &str = "The plimsoll authors <nobody@plimsoll.invalid>";
/// Folder of the systemd units in the sources.
const UNITS: &str = "packaging/systemd";
/// The sample script for Slurm.
const SLURM_SCRIPT: &str = "packaging/slurm/plimsoll.sbatch";

/// Returns the installed files, below usr.
pub(super) fn installed(program: &[u8], documents: &Tree, inventory: &Inventory) -> Result<Tree> {
    let mut tree = documents.clone();
    tree.add("usr/bin/plimsoll", 0o755, program.to_vec());
    for entry in fs::read_dir(UNITS).context(UNITS)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        tree.add(&format!("usr/lib/systemd/system/{name}"), 0o644, fs::read(entry.path())?);
    }
    let script = fs::read(SLURM_SCRIPT).context(SLURM_SCRIPT)?;
    tree.add("usr/share/doc/plimsoll/examples/plimsoll.sbatch", 0o644, script);
    for name in ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        let content = fs::read(name).context(name)?;
        tree.add(&format!("usr/share/doc/plimsoll/{name}"), 0o644, content);
    }
    let licences = inventory.licences().into_bytes();
    tree.add("usr/share/doc/plimsoll/THIRD-PARTY-LICENCES.gz", 0o644, gzip(&licences)?);
    Ok(tree)
}

/// Writes the archive for any Linux, to be unpacked anywhere or into /usr/local with `--strip-components 1`.
pub(super) fn archive(release: &Release, arch: Arch, files: &Tree) -> Result<()> {
    let name = format!("plimsoll-{}-{}-linux", release.version, arch.name());
    let tar = files.renamed("usr/", &format!("{name}/")).tar(release.seconds())?;
    fs::write(release.out.join(format!("{name}.tar.gz")), gzip(&tar)?)?;
    Ok(())
}

/// Writes the package for Debian and its derivatives.
pub(super) fn deb(release: &Release, arch: Arch, files: &Tree) -> Result<()> {
    let name = format!("plimsoll_{}_{}.deb", release.version, arch.debian());
    // Debian's zsh looks elsewhere.
    let mut files =
        files.renamed("usr/share/zsh/site-functions/", "usr/share/zsh/vendor-completions/");
    files.add("usr/share/doc/plimsoll/copyright", 0o644, copyright()?.into_bytes());
    let root = release.fresh(&format!("deb-{}", arch.debian()))?;
    files.write_below(&root, release.time)?;
    let bytes: usize = files.files().map(|(_, content)| content.len()).sum();
    let mut command = Command::new("md5sum");
    let md5sums = output(command.current_dir(&root).args(files.files().map(|(path, _)| path)))?;
    let mut control = Tree::default();
    control.add("DEBIAN/md5sums", 0o644, md5sums.into_bytes());
    control.add("DEBIAN/control", 0o644, control_file(release, arch, bytes).into_bytes());
    control.write_below(&root, release.time)?;
    let mut command = Command::new("dpkg-deb");
    command.env("SOURCE_DATE_EPOCH", release.seconds().to_string());
    // The number of threads decides where compressed blocks end.
    command.args(["-Zxz", "--threads-max=1", "--root-owner-group", "--build"]);
    output(command.arg(&root).arg(release.out.join(name))).map(drop)
}

fn control_file(release: &Release, arch: Arch, bytes: usize) -> String {
    let lines: String = DESCRIPTION.lines().map(|line| format!(" {line}\n")).collect();
    format!(
        "Package: plimsoll\nVersion: {}\nArchitecture: {}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {}\nSection: net\nPriority: optional\nRecommends: ca-certificates\n\
         Suggests: haproxy, nginx, openssh-client\nDescription: {SUMMARY}\n{lines}",
        release.version,
        arch.debian(),
        bytes.div_ceil(1024),
    )
}

/// Returns Debian's file about the licence.
fn copyright() -> Result<String> {
    let mit = fs::read_to_string("LICENSE-MIT").context("LICENSE-MIT")?;
    let mit: String = mit
        .trim()
        .lines()
        .map(|line| match line.trim() {
            "" => " .\n".to_owned(),
            text => format!(" {text}\n"),
        })
        .collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: plimsoll\n\nFiles: *\nCopyright: the plimsoll authors\n\
         License: MIT or Apache-2.0\nComment: The binary holds libraries of others, whose licences are in\n \
         /usr/share/doc/plimsoll/THIRD-PARTY-LICENCES.gz.\n\nLicense: MIT\n{mit}\nLicense: Apache-2.0\n \
         On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n"
    ))
}

/// Writes the package for Fedora, RHEL, SUSE and their derivatives.
pub(super) fn rpm(release: &Release, arch: Arch, files: &Tree) -> Result<()> {
    let scratch = release.fresh(&format!("rpm-{}", arch.name()))?;
    let root = scratch.join("files");
    fs::create_dir(&root)?;
    files.write_below(&root, release.time)?;
    let spec = scratch.join("plimsoll.spec");
    fs::write(&spec, spec_file(release, &root, files))?;
    let mut command = Command::new("rpmbuild");
    command.env("SOURCE_DATE_EPOCH", release.seconds().to_string());
    command.args(["-bb", "--quiet", "--target", &format!("{}-linux", arch.name())]);
    let folder = |name: &str| scratch.join(name).display().to_string();
    for (name, value) in [
        ("_topdir", folder("build")),
        ("_rpmdir", folder("made")),
        ("_rpmfilename", "plimsoll.rpm".to_owned()),
        ("_buildhost", "localhost".to_owned()),
        ("use_source_date_epoch_as_buildtime", "1".to_owned()),
        ("clamp_mtime_to_source_date_epoch", "1".to_owned()),
        ("_binary_payload", "w6.xzdio".to_owned()),
        // The binary is packed as it was built.
        ("debug_package", "%{nil}".to_owned()),
        ("__os_install_post", "%{nil}".to_owned()),
        ("_build_id_links", "none".to_owned()),
    ] {
        command.arg("--define").arg(format!("{name} {value}"));
    }
    output(command.arg(&spec))?;
    let name = format!("plimsoll-{}-1.{}.rpm", release.version, arch.name());
    fs::copy(scratch.join("made/plimsoll.rpm"), release.out.join(name))?;
    Ok(())
}

fn spec_file(release: &Release, root: &Path, files: &Tree) -> String {
    let doc = "/usr/share/doc/plimsoll";
    let lines = files.files().map(|(path, _)| format!("/{path}\n"));
    let files: String = lines.chain([format!("%dir {doc}\n")]).collect();
    format!(
        "Name: plimsoll\nVersion: {}\nRelease: 1\nSummary: {SUMMARY}\nLicense: MIT OR Apache-2.0\n\
         AutoReqProv: no\n\n%description\n{DESCRIPTION}\n%install\nmkdir -p %{{buildroot}}\n\
         cp -a '{}'/. %{{buildroot}}/\n\n%files\n%defattr(-,root,root)\n{files}",
        release.version,
        root.display(),
    )
}

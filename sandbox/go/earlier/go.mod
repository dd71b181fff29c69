// Only marks the folder as a module: each release has its own .mod file, named by -modfile.
module virt.placement/sandbox/earlier

go 1.24.0

// The number of a workgroup: dispatches past 65 535 workgroups are folded into rows of FOLD.
fn group_of(id: vec3<u32>) -> u32 { return id.x + id.y * FOLD; }

// A product of rows with the a of their environment: a is symmetric, so its rows serve as columns. The stage gives
// `left` and `store`.
#bind diffusion
var<private> tile_environment: u32;

fn right(unit: u32, k: u32) -> vec4<f32> {
    if (unit >= job.dim || k >= job.stride) { return vec4<f32>(0.0); }
    return diffusion[tile_environment * job.diffusion_stride + unit * job.stride + k];
}

#use product_rows

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    // A tile of rows is a block, and a block lies in one environment.
    tile_environment = block_of(group / job.column_tiles * TILE).environment;
    product_rows(group / job.column_tiles, group % job.column_tiles, job.stride, thread);
}

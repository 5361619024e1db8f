// A product of rows with the a of their environment: a is symmetric, so its rows serve as columns. The stage gives
// `left_at`, `left` and `store`.
#bind diffusion
#use unpadded
var<private> tile_environment: u32;

fn right_at(unit: u32) -> u32 {
    return tile_environment * job.diffusion_stride + min(unit, job.dim - 1u) * job.stride;
}
fn right(at: u32, k: u32) -> vec4<f32> { return diffusion[at + k]; }

#use product_rows

@compute @workgroup_size(TILE_THREADS)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    // A tile of rows is a block, and a block lies in one environment.
    tile_environment = block_of(group / job.column_tiles * TILE).environment;
    product_rows(group / job.column_tiles, group % job.column_tiles, job.stride, thread);
}

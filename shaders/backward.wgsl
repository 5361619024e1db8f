// Stage `backward`: ∂/∂W = Σ_rows b̄ xᵀ (for the MLP with what `adjoint` left in place of the activations). Rows are cut
// into splits where a small model would not fill the device.
#bind x, work
#use grid
#use product
#use backward_sink

fn left_at(depth: u32, quad: u32) -> u32 {
    return depth * job.work_stride + select(job.at_bar, job.at_hidden, MLP) + min(quad, job.unit_stride - 1u);
}
fn left(at: u32, row: u32) -> vec4<f32> { return work[at + row * job.work_stride]; }
fn right_at(depth: u32, quad: u32) -> u32 { return depth * job.stride + min(quad, job.stride - 1u); }
fn right(at: u32, row: u32) -> vec4<f32> { return x[at + row * job.stride]; }

var<private> split: u32;

fn store(unit: u32, quad: u32, value: vec4<f32>) {
    if (unit >= job.units || quad >= job.stride) { return; }
    put(split, unit * job.stride + quad, value);
}

#use product_columns

@compute @workgroup_size(TILE_THREADS)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let part = group % job.splits; // of which browsers know that it is uniform
    split = part;
    let tile_index = group / job.splits;
    let blocks_here = job.rows / ROW_BLOCK;
    let rows = vec2<u32>(blocks_here * part / job.splits, blocks_here * (part + 1u) / job.splits) * ROW_BLOCK;
    var tile = Tile();
    sum_outer(&tile, tile_index / job.column_tiles, tile_index % job.column_tiles, rows, thread);
    store_tile(tile, tile_index / job.column_tiles, tile_index % job.column_tiles, thread);
}

// Stage `outer` (full diffusion): ∂/∂a of every environment as sums over its rows of outer products: of the rows that
// `adjoint` left, with the samples; for all pairs also b̃ R_zᵀ + x R_wᵀ + a x R_mᵀ. Only its symmetric part is used.
#bind x, work, centres, environments, a_bar
#use grid
#use product
#use outer_source

var<private> e: u32;
var<private> part: u32;

fn centred(row: u32, quad: u32) -> vec4<f32> { return x[row * job.stride + quad] - centres[e * job.stride + quad]; }

fn left(row: u32, quad: u32) -> vec4<f32> {
    if (quad >= job.stride) { return vec4<f32>(0.0); }
    let record = row * job.work_stride;
    if (part == 0u) { return work[record + job.at_left + quad]; }
    if (part == 1u) { return work[record + job.at_b + quad]; }
    if (part == 2u) { return work[record + job.at_spread + quad]; }
    return centred(row, quad);
}

fn right(row: u32, quad: u32) -> vec4<f32> {
    if (quad >= job.stride) { return vec4<f32>(0.0); }
    if (part == 0u) { return centred(row, quad); }
    return weighted_sum(row, quad);
}

fn store(row: u32, quad: u32, value: vec4<f32>) {
    if (row >= job.dim || quad >= job.stride) { return; }
    let at = (e * job.dim + row) * job.stride + quad;
    if (job.accumulate != 0u) { a_bar[at] += value; } else { a_bar[at] = value; }
}

#use product_columns

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let tiles = job.column_tiles * job.column_tiles;
    let environment = group / tiles; // of which browsers know that it is uniform
    e = environment;
    let row_tile = group % tiles / job.column_tiles;
    let column_tile = group % job.column_tiles;
    // This environment's blocks within the span.
    let here = environments[environment];
    let begin = max(here.first_block, job.first_block);
    let end = min(here.first_block + here.blocks, job.first_block + job.rows / ROW_BLOCK);
    let rows = vec2<u32>(begin - job.first_block, max(begin, end) - job.first_block) * ROW_BLOCK;
    var tile = Tile();
    // Part 0 holds the adjoint of the tilt for all pairs: nothing without a tilt.
    for (var at = select(0u, 1u, ALL_PAIRS && !TILTED); at < OUTER_PARTS; at++) {
        part = at;
        sum_outer(&tile, row_tile, column_tile, rows, thread);
    }
    store_tile(tile, row_tile, column_tile, thread);
}

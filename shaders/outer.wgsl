// Stage `outer` (full diffusion): ∂/∂a of every environment as sums over its rows of outer products: of the rows that
// `adjoint` left, with the samples; for all pairs also b̃ R_zᵀ + x R_wᵀ + a x R_mᵀ. Only its symmetric part is used.
#bind x, work, centres, environments, a_bar
#use grid
#use product
#use outer_source

var<private> e: u32;
var<private> part: u32;

var<private> lane: u32; // the thread's row of depth

fn centred(row: u32, quad: u32) -> vec4<f32> {
    return x[(row + lane) * job.stride + quad] - centres[e * job.stride + quad];
}

fn left_at(depth: u32, quad: u32) -> u32 {
    lane = depth;
    return min(quad, job.stride - 1u);
}
fn left(quad: u32, row: u32) -> vec4<f32> {
    if (part == 3u) { return centred(row, quad); }
    let place = select(select(job.at_spread, job.at_b, part == 1u), job.at_left, part == 0u);
    return work[(row + lane) * job.work_stride + place + quad];
}
fn right_at(depth: u32, quad: u32) -> u32 { return min(quad, job.stride - 1u); }
fn right(quad: u32, row: u32) -> vec4<f32> {
    if (part == 0u) { return centred(row, quad); }
    return weighted_sum(row + lane, quad);
}

fn store(row: u32, quad: u32, value: vec4<f32>) {
    if (row >= job.dim || quad >= job.stride) { return; }
    let at = (e * job.dim + row) * job.stride + quad;
    if (job.accumulate != 0u) { a_bar[at] += value; } else { a_bar[at] = value; }
}

#use product_columns

@compute @workgroup_size(TILE_THREADS)
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
        choose_sum(here);
        sum_outer(&tile, row_tile, column_tile, rows, thread);
    }
    store_tile(tile, row_tile, column_tile, thread);
}

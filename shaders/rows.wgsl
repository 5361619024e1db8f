// What a row of this span belongs to. A block of rows lies in one environment.
#bind blocks
fn block_of(row: u32) -> Block { return blocks[job.first_block + row / ROW_BLOCK]; }

// Whether the row is a sample rather than padding.
fn is_sample(row: u32, block: Block) -> bool {
    return (job.first_block - block.first_block) * ROW_BLOCK + row < block.rows;
}

// What docs/tutorials/own-wallet.md says of Go.
package main

import (
	"encoding/json"
	"fmt"
	"math"
)

func main() {
	var call struct {
		PlayerID string `json:"player_id"`
		Amount   any
	}
	body := "{\"player_id\":\"a\",\"PLAYER_ID\":\"b\xff\\ud800\",\"Amount\":9007199254740993}"
	fmt.Println(json.Unmarshal([]byte(body), &call))
	fmt.Printf("%+q\n", call.PlayerID)
	fmt.Printf("%.0f\n", call.Amount)
	most := int64(math.MaxInt64)
	fmt.Println(most+1 < 0, len("\U0001f3b0"))
}
